"""Interrupt affinity, RPS and XPS as files of procfs and sysfs below a root: read, saved, written, restored."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from emulator.errors import InputError, KernelError, MissingError, VerifyError
from emulator.plan.irq_affinity import Setting, Tunable, settings
from emulator.system import atomic_file, bounded_file, kept_file

VERSION = 1
OURS = re.compile(r"proc/irq/\d+/smp_affinity_list|sys/class/net/[^/]+/queues/(rx-\d+/rps_cpus|tx-\d+/xps_cpus)")
"""The only files that Longhaul ever writes, whatever a saved file says."""

VALUES = re.compile(r"[0-9a-f,-]*")
"""What they hold: lists of cores, and masks."""


class Tunables:
    """The files below `root` (/ on a real machine); `state_dir` keeps their content from before the first tune.

    `boot_id` is Clock's: a reboot restores all values, and may give an interrupt's number to another device, so what
    another boot saved counts as absent.
    """

    def __init__(self, root: Path, state_dir: Path, boot_id: str) -> None:
        self._root, self._file, self._boot_id = root, state_dir / "tuned.json", boot_id

    def plan(self, ports: Sequence[str]) -> list[Setting]:
        """What tuning these ports would change. Raises InputError for a port that does not exist."""
        return settings([self._port(name) for name in dict.fromkeys(ports)], self._nodes())

    def apply(self, wanted: Sequence[Setting]) -> None:
        """Write what differs, after saving the old values to disk; a failure restores what it wrote so far."""
        changed = [one for one in wanted if one.before != one.after]
        before = {one.path: one.before for one in changed} | self._load()
        if changed:
            self._save(before)
        done: list[Setting] = []
        try:
            for one in changed:
                done.append(one)
                self._write(one.path, one.after)
        except BaseException:
            self._write_each({one.path: one.before for one in reversed(done)})
            raise

    def saved(self) -> list[Setting]:
        """What `restore` would write, without files of ports that are gone."""
        there = {path: before for path, before in self._load().items() if (self._root / path).exists()}
        return [Setting(path, self._read(path), before, "as it was") for path, before in there.items()]

    def restore(self) -> list[Setting]:
        """Restore the values from before the first tune, and forget them. Raises VerifyError for those refused."""
        back = self.saved()
        refused = self._write_each({one.path: one.after for one in reversed(back) if one.before != one.after})
        self._file.unlink(missing_ok=True)
        if refused:
            others = "all other values are restored; a restart of the machine restores these"
            raise VerifyError("\n".join([*map(str, refused), others]))
        return back

    def _port(self, name: str) -> Tunable:
        folder = self._root / "sys/class/net" / name
        if not name or "/" in name or not folder.exists():
            raise InputError.single("there is no such interface; 'longhaul nics' lists them", path=f"port {name}")
        queues = f"sys/class/net/{name}/queues"
        node, speed = (self._number(folder / file) for file in ("device/numa_node", "speed"))
        return Tunable(
            name,
            speed if speed and speed > 0 else None,
            -1 if node is None else node,
            {irq: self._read(f"proc/irq/{irq}/smp_affinity_list") for irq in self._irqs(name)},
            self._queue_values(queues, "rx", "rps_cpus"),
            self._queue_values(queues, "tx", "xps_cpus"),
        )

    def _irqs(self, name: str) -> list[int]:
        """A port's interrupts: its device's own (MSI), else those named after it."""
        device = (self._root / "sys/class/net" / name / "device").resolve()
        # A virtio card is a device on a PCI device, and the interrupts are the latter's.
        folder = (device.parent if device.name.startswith("virtio") else device) / "msi_irqs"
        if folder.is_dir():
            found = [int(entry.name) for entry in folder.iterdir()]
        else:
            table = self._root / "proc/interrupts"
            lines = table.read_text("utf-8").splitlines() if table.exists() else []
            bearing = re.compile(rf"^\s*(\d+):.*\b{re.escape(name)}\b")
            found = [int(match[1]) for line in lines if (match := bearing.match(line))]
        return sorted(irq for irq in found if (self._root / f"proc/irq/{irq}/smp_affinity_list").exists())

    def _queue_values(self, queues: str, kind: str, file: str) -> list[str]:
        """One value a queue; empty where the kernel cannot steer (one CPU, or one queue that needs none)."""
        count = len(list((self._root / queues).glob(f"{kind}-*/{file}")))
        try:
            return [self._read(f"{queues}/{kind}-{number}/{file}") for number in range(count)]
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return []
            raise

    def _nodes(self) -> dict[int, list[int]]:
        """The online cores by NUMA node; all on node 0 where there are no nodes."""
        online = _cores(self._read("sys/devices/system/cpu/online"))
        folders = (self._root / "sys/devices/system/node").glob("node[0-9]*")
        nodes = {int(f.name[4:]): _cores((f / "cpulist").read_text("utf-8").strip()) for f in folders}
        present = {number: [core for core in cores if core in online] for number, cores in nodes.items()}
        return {number: cores for number, cores in present.items() if cores} or {0: online}

    def _read(self, path: str) -> str:
        return (self._root / path).read_text("utf-8").strip()

    def _number(self, path: Path) -> int | None:
        try:
            return int(path.read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def _write_each(self, values: Mapping[str, str]) -> list[KernelError | VerifyError]:
        """Write these values by path, whatever a single file refuses; returns the refusals. Raises MissingError."""
        refused: list[KernelError | VerifyError] = []
        for path, value in values.items():
            try:
                self._write(path, value)
            except (KernelError, VerifyError) as error:
                refused.append(error)
        return refused

    def _write(self, path: str, value: str) -> None:
        """Write one value. Raises KernelError, MissingError, or VerifyError when another value reads back."""
        what = f"echo {value} > /{path}"
        try:
            (self._root / path).write_text(value, "utf-8")
            now = self._read(path)
        except OSError as error:
            # EPERM is the answer of newer kernels, to root too, for an interrupt that they manage themselves.
            if error.errno == errno.EACCES:
                raise MissingError(f"not permitted: {what}\nrun as root") from error
            raise KernelError(what, error.errno or errno.EIO, error.strerror or "") from error
        if _canonical(now) != _canonical(value):
            raise VerifyError(f"the kernel accepted the change, but {what} reads back as {now}")

    def _load(self) -> dict[str, str]:
        """The values from before this boot's first tune. Raises InputError for a spoilt file, which is set aside."""
        try:
            found = kept_file.read_json(self._file, bounded_file.SAVED)
            version, before = found.get("version"), {path: str(value) for path, value in found["before"].items()}
            if isinstance(version, int) and version > VERSION:
                raise InputError.single("was not written by this version of Longhaul, but a newer one", str(self._file))
            ours = all(OURS.fullmatch(path) and VALUES.fullmatch(value) for path, value in before.items())
            if version != VERSION or not ours:
                raise ValueError("it was not written by this version of Longhaul")
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            aside = kept_file.set_aside(self._file)
            lost = "Longhaul cannot tell the values from before the first tune; a restart of the machine restores them"
            raise InputError.single(f"is damaged ({error}), and is now {aside}: {lost}", str(self._file)) from None
        return before if found.get("boot_id") == self._boot_id else {}

    def _save(self, before: dict[str, str]) -> None:
        atomic_file.folder(self._file.parent)
        kept = {"version": VERSION, "boot_id": self._boot_id, "before": before}
        atomic_file.write(self._file, json.dumps(kept).encode(), clearing=True)


def _cores(text: str) -> list[int]:
    """A list of cores as the kernel writes it: "0-3,8"."""
    cores: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return cores


def _canonical(value: str) -> str:
    """A mask without leading zeros and commas."""
    return value.replace(",", "").lstrip("0")
