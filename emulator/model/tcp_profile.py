"""A named set of TCP settings for the hosts. A pure value."""

from __future__ import annotations

from msgspec import Struct

LARGEST_BUFFER_BYTES = 2**30 - 2**20
"""The kernel computes socket buffers with int arithmetic, which overflows at 1 GiB."""
LARGEST_SYSCTL_BYTES, MOST_PAGES = 2**31 - 1, 2**63 - 1
"""What the kernel's sysctls hold: tcp_rmem and tcp_wmem as int, tcp_mem as long."""
MOST_ECN = 5
"""Of tcp_ecn: 0 to 2 everywhere, 3 to 5 (AccECN) where the kernel knows them; another kernel refuses them."""
MOST_SEGMENTS = 65_535
"""Of a first window, as a route holds it."""
HOST_QDISCS = ("fq", "fq_codel", "pfifo_fast")
"""Those that a host can have: distributions choose one of them. Only fq paces TCP (net/sched/sch_fq.c)."""


class Profile(Struct, frozen=True):
    """A named set of TCP settings for the hosts; None keeps the kernel's own value.

    `tcp_rmem`, `tcp_wmem`: min, default, max in bytes (Documentation/networking/ip-sysctl.rst); `tcp_mem`: low,
    pressure, high in pages, global to the machine. `initcwnd`, `initrwnd`: segments, per route. `tcp_ecn`: 0 none,
    1 asked for and granted, 2 granted. `qdisc`: the root qdisc of the interface, one of HOST_QDISCS. `window`: the
    receive window in bytes, per route; only an experiment sets it, no profile of a file.
    """

    name: str
    tcp_rmem: tuple[int, int, int] | None = None
    tcp_wmem: tuple[int, int, int] | None = None
    tcp_mem: tuple[int, int, int] | None = None
    congestion_control: str | None = None
    no_metrics_save: bool | None = True
    initcwnd: int | None = None
    initrwnd: int | None = None
    tcp_ecn: int | None = None
    qdisc: str | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        for field in ("tcp_rmem", "tcp_wmem", "tcp_mem"):
            values = getattr(self, field)
            if values is not None and not 0 < values[0] <= values[1] <= values[2]:
                raise ValueError(f"{field} {values} is not in rising order: use minimum <= default <= maximum")
            most = MOST_PAGES if field == "tcp_mem" else LARGEST_SYSCTL_BYTES
            if values is not None and values[2] > most:
                raise ValueError(f"{field} {values[2]} is above the kernel's {most}")
        if self.tcp_ecn is not None and not 0 <= self.tcp_ecn <= MOST_ECN:
            raise ValueError(f"tcp_ecn {self.tcp_ecn} is not within 0..{MOST_ECN}")
        if self.qdisc is not None and self.qdisc not in HOST_QDISCS:
            raise ValueError(f"qdisc {self.qdisc!r} is not one of {', '.join(HOST_QDISCS)}")
        for field in ("initcwnd", "initrwnd"):
            value = getattr(self, field)
            if value is not None and not 1 <= value <= MOST_SEGMENTS:
                raise ValueError(f"{field} {value} is not within 1..{MOST_SEGMENTS}")
