"""Which cores serve which port: interrupts, receive and transmit steering, one core for each 10 Gbit/s. Pure.

Source: Documentation/networking/scaling.rst of Linux 6.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

CORE_MBPS = 10_000
"""The rate that one core forwards; it determines a port's number of cores."""


class Tunable(Struct, frozen=True):
    """A port's data for tuning. `irqs`: its interrupts in the order of its queues; the other fields count its queues.

    `rps` and `xps` are the present values, one for each queue; empty where this kernel cannot steer (one CPU).
    """

    name: str
    speed_mbps: int | None
    numa_node: int
    irqs: Mapping[int, str]
    rps: Sequence[str]
    xps: Sequence[str]


class Setting(Struct, frozen=True):
    """One file below the root: its present value, its new value, and the reason."""

    path: str
    before: str
    after: str
    why: str


def settings(ports: Sequence[Tunable], nodes: Mapping[int, Sequence[int]]) -> list[Setting]:
    """All settings for these ports on a machine with these cores by NUMA node, including unchanged ones."""
    cores = assign(ports, nodes)
    width = max(core for node in nodes.values() for core in node) + 1
    return [one for port in ports for one in _of_port(port, cores[port.name], width)]


def assign(ports: Sequence[Tunable], nodes: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    """Each port's cores: of its own node, one for each 10 Gbit/s; ports share cores only when all cores are in use."""
    everywhere = sorted(core for node in nodes.values() for core in node)
    work = dict.fromkeys(everywhere, 0)
    given: dict[str, list[int]] = {}
    for port in ports:
        near = list(nodes.get(port.numa_node) or everywhere)
        wanted = min(len(near), max(1, -(-(port.speed_mbps or CORE_MBPS) // CORE_MBPS)))
        chosen = sorted(sorted(near, key=lambda core: (work[core], core))[:wanted])
        for core in chosen:
            work[core] += 1
        given[port.name] = chosen
    return given


def _of_port(port: Tunable, cores: Sequence[int], width: int) -> Iterator[Setting]:
    for place, (irq, before) in enumerate(port.irqs.items()):
        core = cores[place % len(cores)]
        yield Setting(f"proc/irq/{irq}/smp_affinity_list", before, str(core), f"interrupt {place + 1} of {port.name}")
    queues = f"sys/class/net/{port.name}/queues"
    for queue, before in enumerate(port.rps):
        # Interrupts for every core already spread the load; a port with fewer needs RPS for the rest.
        after = [] if len(port.irqs) >= len(cores) else cores
        why = f"{port.name}'s interrupts reach all its cores" if not after else f"{port.name} is received there"
        yield Setting(f"{queues}/rx-{queue}/rps_cpus", before, mask(after, width), why)
    for queue, before in enumerate(port.xps):
        after = [core for place, core in enumerate(cores) if place % len(port.xps) == queue % len(cores)]
        yield Setting(f"{queues}/tx-{queue}/xps_cpus", before, mask(after, width), f"{port.name} is sent from there")


def mask(cores: Sequence[int], width: int) -> str:
    """Cores as the kernel writes them on a machine with `width` cores: words of 32 bits in hex, highest first."""
    bits = sum(1 << core for core in cores)
    words = [bits >> 32 * word & 0xFFFFFFFF for word in range(-(-width // 32))]
    digits = min(8, -(-(width - 32 * (len(words) - 1)) // 4))
    first, *rest = reversed(words)
    return ",".join([f"{first:0{digits}x}", *(f"{word:08x}" for word in rest)])
