"""What this machine and its kernel can do: tried out, or read from procfs. Longhaul owns none of it."""

from __future__ import annotations

import errno
import os
import re
from contextlib import closing
from functools import cache
from pathlib import Path

from emulator.kernel import netns, prepared_request, qdisc_messages
from emulator.plan.ops import NF_CALL

LOOPBACK = 1
"""The index of `lo`, in every namespace."""
SYSCTLS = Path("/proc/sys")
SILENT = {f"net/bridge/bridge-nf-call-{name}": "0" for name in NF_CALL} | {"net/ipv6/conf/default/disable_ipv6": "1"}
"""What keeps a lane's bridge and ports silent, and frames from the machine's packet filter: file and value."""


def nf_call() -> tuple[int, int, int] | None:
    """br_netfilter's three switches; None where it is not loaded."""
    paths = [Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}") for name in NF_CALL]
    if not all(path.exists() for path in paths):
        return None
    first, second, third = (int(path.read_text("utf-8")) for path in paths)
    return first, second, third


def memory_bytes() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def version() -> tuple[int, int]:
    """The first two numbers of this kernel's version."""
    numbers = re.findall(r"\d+", os.uname().release)
    return int(numbers[0]), int(numbers[1])


@cache
def has_netem() -> bool:
    """Whether this kernel has sch_netem; True where this process may not try."""
    return try_netem() is not False


def try_netem() -> bool | None:
    """Whether this kernel has sch_netem, by a request that it refuses in any case; None where this process may not try.

    A queue of somebody's on the loopback is in its way: then it is tried in a short-lived namespace, which a container
    with CAP_NET_ADMIN alone may not make.
    """
    answer = _ask_for_netem()
    if answer is not None:
        return answer
    try:
        return netns.in_new(_ask_for_netem)
    except OSError:
        return None


def _ask_for_netem() -> bool | None:
    """What the kernel of this namespace says of a netem without options; None when that does not tell."""
    encoded = prepared_request.encode([qdisc_messages.netem_without_options(LOOPBACK)])
    with closing(prepared_request.Requests()) as requests:
        try:
            requests.send(encoded, 1)
        except OSError as error:
            return {errno.EINVAL: True, errno.ENOENT: False}.get(error.errno or 0)
    return None


def fixed_sysctls(root: Path = SYSCTLS) -> dict[str, str]:
    """The sysctls of `SILENT` that have another value and are read-only, as in a container; with the right values."""
    paths = {name: root / name for name in SILENT}
    return {
        name.replace("/", "."): SILENT[name]
        for name, path in paths.items()
        if path.exists() and path.read_text("utf-8").strip() != SILENT[name] and os.statvfs(path).f_flag & os.ST_RDONLY
    }


def sysctl_options() -> str:
    """The options of `docker run` that set what `fixed_sysctls` found; "" when it found nothing."""
    return " ".join(f"--sysctl {name}={value}" for name, value in fixed_sysctls().items())
