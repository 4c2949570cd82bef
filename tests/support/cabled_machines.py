"""Three stock Debians under QEMU: a host at the hub, an appliance and a host at a site, cabled by sockets.

Each cable is a pair of Unix sockets of datagrams, a frame each. All three machines run at once by this machine's clock:
machines that count instructions (stock_machines) share no clock, so a round trip between two of them means nothing.
QEMU without KVM is slow, and its time is in every round trip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.stock_images import VM, Image, overlay
from support.stock_machines import Machine, started, without_nics

HUB, APPLIANCE, SITE = "hub", "appliance", "site"
CABLES = {"hub-port": (HUB, "e1000e"), "site-port": (SITE, "vmxnet3"), "hub-ssh": (HUB, "virtio-net-pci"),
          "site-ssh": (SITE, "virtio-net-pci")}  # fmt: skip
"""Of each cable the host that it leads to, and what the appliance's NIC is; a host's is a virtio NIC."""


def mac(cable: str, machine: str) -> str:
    """The address of the NIC at this end of a cable; those of stock_machines, with hosts inside, begin otherwise."""
    return f"52:54:01:00:{list(CABLES).index(cable):02x}:{int(machine == APPLIANCE):02x}"


def arguments(image: Image, machine: str) -> Iterator[str]:
    """QEMU's command line."""
    name = name_of(image, machine)
    # The appliance has two CPUs, as its queues and its interrupts are spread over several.
    yield from ("-smp", str(1 + (machine == APPLIANCE)), "-accel", "tcg,thread=multi")
    yield from without_nics(image, next(iter(image.kernels)), f"/{VM}/{name}.qcow2", f"/{VM}/{name}")
    for cable, (host, model) in CABLES.items():
        if machine not in (host, APPLIANCE):
            continue
        other, own = sorted(_sockets(image, cable), key=lambda name: name.endswith(machine))
        sockets = f"local.type=unix,local.path=/{VM}/{own},remote.type=unix,remote.path=/{VM}/{other}"
        yield from ("-netdev", f"dgram,id={cable},{sockets}")
        driver = model if machine == APPLIANCE else "virtio-net-pci"
        yield from ("-device", f"{driver},netdev={cable},mac={mac(cable, machine)},romfile=")


def _sockets(image: Image, cable: str) -> tuple[str, str]:
    """What the sockets of a cable are called: the host's, the appliance's."""
    return f"{image.suite}-{cable}.{CABLES[cable][0]}", f"{image.suite}-{cable}.{APPLIANCE}"


def name_of(image: Image, machine: str) -> str:
    """What its disk and sockets are called."""
    return f"{image.suite}-{machine}"


@contextmanager
def cabled(root: Path, image: Image) -> Iterator[dict[str, Machine]]:
    """All three, booted; in the end their power is cut."""
    for name in (name for cable in CABLES for name in _sockets(image, cable)):
        (root / VM / name).unlink(missing_ok=True)  # nobody can bind to one of before
    with ExitStack() as stack:
        machines: dict[str, Machine] = {}
        for machine in (HUB, SITE, APPLIANCE):
            name = name_of(image, machine)
            overlay(root, image, name)
            process = stack.enter_context(started(root, name, list(arguments(image, machine))))
            machines[machine] = Machine(process, root / VM / name, pauses=False)
        for one in machines.values():
            one.await_boot()
        yield machines
