"""The observations during a cell, in groups: sockets, queues, the machine, delays. Values; pure."""

from __future__ import annotations

from msgspec import Struct

from emulator.analysis.latency_histogram import Latency

MEMORY_PRESSURES = "TcpExtTCPMemoryPressures"
LISTEN_DROPS = "TcpExtListenDrops"
LOSS_PROBES = "TcpExtTCPLossProbes"
TIMEOUTS = "TcpExtTCPTimeouts"
DELIVERED_MARKED = "TcpExtTCPDeliveredCE"


class Sockets(Struct, frozen=True):
    """The sender's sockets over the steady part; windows are of one stream, shares are of the streams' busy time.

    `in_flight_bytes` is the mean of the unacknowledged bytes, `peer_window_bytes` the window that the receiver offered.
    """

    in_flight_bytes: int
    most_in_flight_bytes: int
    peer_window_bytes: int
    send_buffer_bytes: int
    rtt_ns: int
    rwnd_share: float
    sndbuf_share: float


class Queues(Struct, frozen=True):
    """Packets that the lane's queues dropped: by the emulator's limit, by the full buffer, by the configured loss.

    None: the kernel does not count them separately. `datapath` is netem or wire.
    """

    drops_limit: int | None
    drops_buffer: int
    drops_loss: int | None
    datapath: str = "netem"


class MachineUse(Struct, frozen=True):
    """The kernel's version, the increase of its TCP counters, and the load of the busiest core, whatever caused it."""

    kernel: str
    counters: dict[str, int]
    core_percent: float

    @property
    def memory_pressures(self) -> int:
        """The number of times that TCP ran short of tcp_mem."""
        return self.counters.get(MEMORY_PRESSURES, 0)

    @property
    def listen_drops(self) -> int:
        """The number of segments that listening sockets dropped: each is sent again, though the lane lost nothing."""
        return self.counters.get(LISTEN_DROPS, 0)

    @property
    def marked(self) -> int:
        """The number of segments that the receivers acknowledged as marked by ECN."""
        return self.counters.get(DELIVERED_MARKED, 0)


class Delays(Struct, frozen=True):
    """Round-trip times: the least of the echoes before the streams, and the probes on the idle and the loaded lane."""

    rtt_ns: int
    idle: Latency | None
    loaded: Latency | None


class LaneEvidence(Struct, frozen=True, kw_only=True):
    """What is known of the lane, its hosts and the machine around a workload, whatever it was.

    `rtt_before_ns` is the RTT of the idle lane, which may be off by `rtt_tolerance_ns`. `memory_short` says that TCP
    was short of tcp_mem before the workload began, `cached_metrics` counts the peers that the kernel remembered then,
    and `drift` tells what others changed at the lane.
    """

    queues: Queues
    machine: MachineUse
    memory_short: bool
    rtt_before_ns: int
    rtt_tolerance_ns: int
    cached_metrics: int
    drift: tuple[str, ...]

    @property
    def lacked_memory(self) -> bool:
        """Whether TCP was short of tcp_mem, before the workload or beside it."""
        return self.memory_short or self.machine.memory_pressures > 0


class CapturedFile(Struct, frozen=True):
    """A file of captured frames (pcapng): its name, its SHA-256, how many frames it has, and how many its port lost.

    The port lost those that came while the capture's queue was full; in the lab there are none.
    """

    name: str
    sha256: str
    frames: int
    dropped: int
