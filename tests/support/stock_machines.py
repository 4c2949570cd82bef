"""A stock Debian under QEMU without KVM, with four NICs for each kind: two ports, and the host's behind each.

Time in there is exact: it is the count of instructions, and idle time passes at once (`-icount`). A machine is stopped
while nobody asks it anything. A cable is a hub of QEMU with two ports; where the port has several queues, which a hub
lacks, it is a bridge with two taps, in a network namespace of QEMU's own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.stock_images import VM, Image
from support.waiting import until

MODELS = {
    "virtio": "virtio-net-pci", "e1000e": "e1000e", "igb": "igb", "vmxnet3": "vmxnet3", "virtio-mq": "virtio-net-pci",
}  # fmt: skip
"""Of each kind of NIC its device in QEMU, in the order in which the machine finds them."""
QUEUES = {"virtio-mq": 2}
"""The pairs of queues, one for each CPU, of a virtio NIC that has several; other drivers choose for themselves."""
IN_OWN_TIME: dict[str, Any] = {"ioeventfd": False, "tx": "timer", "x-txtimer": 1000}
"""A virtio NIC that sends in the machine's time: by default QEMU sends when it comes to it, and idle time passes."""
ENDS = ("hub", "site")
PATIENCE_S = 600.0
CPUS = 2


@dataclass(frozen=True)
class Answer:
    """What a script printed (both streams), its exit code, and its seconds of the machine's time."""

    out: str
    code: int
    s: float


def mac(kind: str, end: str, *, host: bool = False) -> str:
    """The address of a port, or of the host's NIC behind it."""
    return f"52:54:00:{list(MODELS).index(kind) + 1:02x}:0{int(host)}:0{ENDS.index(end) + 1}"


def nic(kind: str, end: str) -> dict[str, Any]:
    """A port as QMP's device_add takes it; `id` names it in device_del."""
    place = f"{kind}-{end}"
    own = IN_OWN_TIME if MODELS[kind] == MODELS["virtio"] else {}
    # A vector for each queue, for the control queue and for changes of the configuration.
    several = {"mq": True, "vectors": 2 * QUEUES[kind] + 2} if kind in QUEUES else {}
    return {"driver": MODELS[kind], "id": f"port-{place}", "netdev": f"cable-{place}", "mac": mac(kind, end),
            "bus": f"slot-{place}", "romfile": "", **own, **several}  # fmt: skip


def arguments(image: Image, kernel: str, disk: str, folder: str) -> Iterator[str]:
    """QEMU's command line; the sockets and the console's log lie in `folder`."""
    yield from ("-smp", str(CPUS), "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off")
    yield from without_nics(image, kernel, disk, folder)
    yield from ("-netdev", "user,id=management,restrict=on")
    yield from ("-device", "virtio-net-pci,netdev=management,mac=52:54:00:00:00:01,romfile=")
    for number, (kind, end) in enumerate(((kind, end) for kind in MODELS for end in ENDS), 1):
        place = f"{kind}-{end}"
        yield from ("-device", f"pcie-root-port,id=slot-{place},chassis={number},slot={number}")
        yield from _cable(number, kind, place)
        yield from ("-device", _words(nic(kind, end)))
        far = {"driver": "virtio-net-pci", "netdev": f"far-{place}", "mac": mac(kind, end, host=True), "romfile": ""}
        yield from ("-device", _words(far | IN_OWN_TIME))


def without_nics(image: Image, kernel: str, disk: str, folder: str) -> Iterator[str]:
    """What every machine has: its memory, its disk, and the sockets by which the bench speaks to it."""
    yield from ("-machine", "q35", "-m", "2048", "-nodefaults", "-display", "none")
    yield from ("-kernel", image.kernels[kernel], "-initrd", f"{image.kernels[kernel]}.initrd")
    yield from ("-append", "root=/dev/vda rw console=ttyS0 mitigations=off", "-serial", f"file:{folder}.console")
    yield from ("-drive", f"file={disk},if=none,id=disk", "-device", "virtio-blk-pci,drive=disk")
    yield from ("-qmp", f"unix:{folder}.qmp,server=on,wait=off", "-device", "virtio-serial-pci")
    yield from ("-chardev", f"socket,id=agent,path={folder}.agent,server=on,wait=off")
    yield from ("-device", "virtserialport,chardev=agent,name=longhaul.stock")


def _cable(number: int, kind: str, place: str) -> Iterator[str]:
    """The backends of a port and of the host's NIC behind it."""
    if kind in QUEUES:
        taps = {f"cable-{place}": f"port{number},queues={QUEUES[kind]}", f"far-{place}": f"far{number}"}
        for name, tap in taps.items():
            yield from ("-netdev", f"tap,id={name},script=no,downscript=no,ifname={tap}")
        return
    for name in (f"cable-{place}", f"far-{place}"):
        yield from ("-netdev", f"hubport,hubid={number},id={name}")


def _bridged() -> str:
    """A shell script that makes the cables that are bridges, in the namespace where it runs."""
    places = [(kind, end) for kind in MODELS for end in ENDS]
    lines = ["set -e"]
    for number in (number for number, (kind, _) in enumerate(places, 1) if kind in QUEUES):
        lines.append(f"ip link add name cable{number} type bridge mcast_snooping 0")
        for tap, mode in ((f"port{number}", "multi_queue"), (f"far{number}", "")):
            lines.append(f"ip tuntap add name {tap} mode tap {mode}; ip link set {tap} master cable{number} up")
        lines.append(f"ip link set cable{number} up")
    return "; ".join(lines)


def _words(device: Mapping[str, Any]) -> str:
    switched = {key: ("off", "on")[value] if isinstance(value, bool) else value for key, value in device.items()}
    return ",".join(f"{key}={value}" for key, value in switched.items())


class Machine:
    """A machine that runs; its agent answers once it has booted. Its disk outlives it: `booted` may boot it again.

    One that `pauses` is stopped while nobody asks it anything.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, *, pauses: bool = True) -> None:
        self._process, self._pauses = process, pauses
        self._monitor, self._agent = _connected(folder, "qmp"), _connected(folder, "agent")
        self._events: list[str] = []
        self._asked = 0
        self._read(self._monitor)
        self.monitor("qmp_capabilities")
        self.boot = ""

    def sh(self, script: str) -> Answer:
        """Run a script in the machine; the exit code does not matter."""
        self.begin(script)
        return self.end()

    def end(self) -> Answer:
        """Wait for the script that was begun last."""
        said = self._read(self._agent)
        while said.get("id") != self._asked:
            said = self._read(self._agent)
        self._pause()
        return Answer(said["out"].strip(), said["code"], said["s"])

    def begin(self, script: str) -> None:
        """Start a script and do not wait for it."""
        self.monitor("cont")
        self._asked += 1
        self._agent.write(json.dumps({"id": self._asked, "script": script}).encode() + b"\n")
        self._agent.flush()

    def unplug(self, kind: str, end: str) -> None:
        """Take a NIC out and wait until the machine let it go."""
        self._events.clear()
        self.monitor("cont")
        self.monitor("device_del", {"id": nic(kind, end)["id"]})
        while "DEVICE_DELETED" not in self._events:
            self._note(self._read(self._monitor))
        self._pause()

    def plug(self, kind: str, end: str) -> None:
        """Put the same NIC into the same slot."""
        self.monitor("device_add", nic(kind, end))

    def reboot(self) -> None:
        """Boot again by systemd, with the same kernel."""
        self.begin("systemctl reboot")
        self.await_boot()

    def cut(self) -> None:
        """Cut the power: what the machine's kernel has not written yet is lost."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def monitor(self, command: str, values: Mapping[str, object] | None = None) -> Any:
        """Run a command of QMP. Raises RuntimeError when QEMU refuses it."""
        self._monitor.write(json.dumps({"execute": command, "arguments": dict(values or {})}).encode() + b"\n")
        self._monitor.flush()
        while True:
            said = self._read(self._monitor)
            if "error" in said:
                raise RuntimeError(f"{command}: {said['error']['desc']}")
            if "return" in said:
                return said["return"]
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        # A NIC's event names its device; one of its parts has a path only.
        if said.get("event") == "DEVICE_DELETED" and "device" not in said["data"]:
            return
        self._events.append(said.get("event", ""))

    def await_boot(self) -> None:
        """Wait until the agent runs; `boot` is then the boot's id."""
        said = self._read(self._agent)
        while "boot" not in said:
            said = self._read(self._agent)
        self._pause()
        self.boot = str(said["boot"])

    def _pause(self) -> None:
        if self._pauses:
            self.monitor("stop")

    def _read(self, stream: Any) -> dict[str, Any]:
        line = stream.readline()
        if not line:
            raise ConnectionError("the machine is gone")
        said: dict[str, Any] = json.loads(line)
        return said


def _connected(folder: Path, name: str) -> Any:
    path, client = folder.with_name(f"{folder.name}.{name}"), socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE_S)
    # QEMU's socket has its name a moment before it listens.
    assert until(lambda: client.connect_ex(str(path)) == 0)
    return client.makefile("rwb")


@contextmanager
def booted(root: Path, image: Image, disk: str, kernel: str | None = None) -> Iterator[Machine]:
    """The machine from its boot, with the suite's own kernel unless another is named; in the end its power is cut."""
    asked = arguments(image, kernel or next(iter(image.kernels)), disk, f"/{VM}/{image.suite}")
    with started(root, image.suite, list(asked), before=f"{_bridged()}; ") as process:
        machine = Machine(process, root / VM / image.suite)
        machine.await_boot()
        yield machine


@contextmanager
def started(root: Path, name: str, asked: Sequence[str], before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """QEMU in a network namespace of its own, after this shell script; its sockets are called NAME."""
    for socket_name in ("qmp", "agent"):
        (root / VM / f"{name}.{socket_name}").unlink(missing_ok=True)
    qemu = f'{before}exec chroot "$0" qemu-system-x86_64 "$@"'
    # It warns of hubs without a host's network; an error ends it, and is seen as that.
    with subprocess.Popen(["unshare", "--net", "sh", "-c", qemu, root, *asked], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
