"""Cores for ports: the plan on paper, on a copy of sysfs and procfs, and on this machine's own kernel."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from support.folders import ROOT
from support.spoilt_files import Spoil, spoils

from emulator.errors import InputError, KernelError, MissingError, VerifyError
from emulator.kernel import sysfs_affinity
from emulator.kernel.sysfs_affinity import Tunables
from emulator.plan.irq_affinity import Tunable, assign, mask

BOOT = "this boot"
NODES = {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def port(name: str, node: int, speed: int | None = 10_000) -> Tunable:
    return Tunable(name, speed, node, {}, [], [])


@pytest.mark.parametrize(
    ("ports", "cores"),
    [
        ([port("a", 0), port("b", 0)], [[0], [1]]),
        ([port("a", 1), port("b", 0), port("c", 1)], [[4], [0], [5]]),
        ([port("a", 0, 25_000), port("b", 0)], [[0, 1, 2], [3]]),
        ([port("a", 0, 100_000), port("b", 0)], [[0, 1, 2, 3], [0]]),
        ([port("a", -1, None), port("b", -1, 1_000)], [[0], [1]]),
        ([port("abcde"[n], 0) for n in range(5)], [[0], [1], [2], [3], [0]]),
    ],
    ids=["one-each", "near", "three-of-25G", "all-of-a-node", "no-numa", "more-than-cores"],
)
def test_every_port_gets_cores_of_its_node(ports: list[Tunable], cores: list[list[int]]) -> None:
    assert list(assign(ports, NODES).values()) == cores


@pytest.mark.parametrize(
    ("cores", "width", "text"),
    [([], 2, "0"), ([1], 2, "2"), ([0, 5], 8, "21"), ([32], 40, "01,00000000"), ([63, 0], 64, "80000000,00000001")],
)
def test_masks_are_as_the_kernel_writes_them(cores: list[int], width: int, text: str) -> None:
    assert mask(cores, width) == text


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path / "root")


def machine(base: Path) -> Path:
    """Eight cores on two nodes; eth1 (node 1, 25 Gbit/s, MSI), eth2 (node 0, one interrupt by name, four queues)."""
    write(base, {f"sys/class/net/eth1/queues/rx-{q}/rps_cpus": "00" for q in range(4)})
    write(base, {f"sys/class/net/eth1/queues/tx-{q}/xps_cpus": f"{1 << q:02x}" for q in range(4)})
    write(base, {f"sys/class/net/eth1/device/msi_irqs/{irq}": "msix" for irq in range(40, 44)})
    write(base, {f"proc/irq/{irq}/smp_affinity_list": "0-7" for irq in (7, 8, 40, 41, 42, 43)})
    write(base, {"sys/class/net/eth1/device/numa_node": "1", "sys/class/net/eth1/speed": "25000"})
    write(base, {f"sys/class/net/eth2/queues/rx-{q}/rps_cpus": "00" for q in range(2)})
    write(base, {"sys/class/net/eth2/device/numa_node": "0", "sys/class/net/eth2/speed": "20000"})
    write(base, {"sys/class/net/eth2/queues/tx-0/xps_cpus": "00"})
    write(base, {"proc/interrupts": "      CPU0\n 7:  0  IO-APIC  eth2\n 8:  0  IO-APIC  eth20, timer"})
    write(base, {"sys/devices/system/node/node0/cpulist": "0-3", "sys/devices/system/node/node1/cpulist": "4-7"})
    write(base, {"sys/devices/system/cpu/online": "0-6"})
    return base


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text().strip() for path in root.rglob("*") if path.is_file()}


def test_tune_writes_what_it_says_and_restore_gives_it_back(root: Path, tmp_path: Path) -> None:
    door, before = Tunables(root, tmp_path / "state", BOOT), contents(root)
    settings = door.plan(("eth1", "eth2"))
    assert contents(root) == before
    door.apply(settings)
    after = contents(root)
    assert {path: after[path] for path in after if after[path] != before[path]} == {
        "proc/irq/40/smp_affinity_list": "4",
        "proc/irq/41/smp_affinity_list": "5",
        "proc/irq/42/smp_affinity_list": "6",
        "proc/irq/43/smp_affinity_list": "4",
        "sys/class/net/eth1/queues/tx-0/xps_cpus": "10",
        "sys/class/net/eth1/queues/tx-1/xps_cpus": "20",
        "sys/class/net/eth1/queues/tx-2/xps_cpus": "40",
        "sys/class/net/eth1/queues/tx-3/xps_cpus": "10",
        "proc/irq/7/smp_affinity_list": "0",
        "sys/class/net/eth2/queues/rx-0/rps_cpus": "03",
        "sys/class/net/eth2/queues/rx-1/rps_cpus": "03",
        "sys/class/net/eth2/queues/tx-0/xps_cpus": "03",
    }
    saved = tmp_path / "state/tuned.json"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert all(one.before == one.after for one in door.plan(("eth1", "eth2")))
    door.restore()
    assert contents(root) == before
    assert not saved.exists()


def test_a_virtio_card_has_the_interrupts_of_its_pci_device(root: Path, tmp_path: Path) -> None:
    card = root / "sys/class/net/eth1"
    (card / "device").rename(tmp_path / "pci")
    (tmp_path / "pci/virtio0").mkdir()
    (card / "device").symlink_to(tmp_path / "pci/virtio0")
    irqs = [one.path for one in Tunables(root, tmp_path, BOOT).plan(("eth1",)) if "irq" in one.path]
    assert irqs == [f"proc/irq/{irq}/smp_affinity_list" for irq in range(40, 44)]


def test_a_second_tune_remembers_the_first_state(root: Path, tmp_path: Path) -> None:
    door, before = Tunables(root, tmp_path, BOOT), contents(root)
    door.apply(door.plan(("eth1",)))
    door.apply(door.plan(("eth2", "eth1")))
    door.restore()
    assert contents(root) == before


def test_what_was_there_is_saved_before_anything_is_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, before = Tunables(root, tmp_path, BOOT), contents(root)

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", power_cut)
    with pytest.raises(KeyboardInterrupt):
        door.apply(door.plan(("eth1",)))
    assert contents(root) == before


def test_a_file_that_refuses_leaves_all_as_it_was(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door, before = Tunables(root, tmp_path, BOOT), contents(root)
    settings = door.plan(("eth1", "eth2"))
    write_text = Path.write_text

    def refusing(path: Path, text: str, encoding: str) -> int:
        if path.match("*/irq/7/*") and text == "0":
            raise OSError(5, "Input/output error")
        return write_text(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", refusing)
    with pytest.raises(KernelError, match="smp_affinity_list"):
        door.apply(settings)
    assert {path: text.lstrip("0") for path, text in contents(root).items()} == {
        path: text.lstrip("0") for path, text in before.items()
    }


def refusing(monkeypatch: pytest.MonkeyPatch, code: int, *paths: str) -> None:
    """From now on these files refuse every value."""
    write_text = Path.write_text

    def write(path: Path, text: str, encoding: str) -> int:
        if any(path.match(f"*/{one}") for one in paths):
            raise OSError(code, os.strerror(code))
        return write_text(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", write)


def test_a_file_that_refuses_its_old_value_too_keeps_no_other_from_its_own(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, before = Tunables(root, tmp_path, BOOT), contents(root)
    settings = door.plan(("eth1", "eth2"))
    refusing(monkeypatch, errno.EIO, "irq/7/smp_affinity_list")
    with pytest.raises(KernelError, match="echo 0 > /proc/irq/7/smp_affinity_list: Input/output error"):
        door.apply(settings)
    assert contents(root) == before


@pytest.mark.parametrize("code", [errno.EIO, errno.EPERM])
def test_the_restore_goes_on_after_an_interrupt_that_refuses_and_tells_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Newer kernels answer EPERM, also to root, where older ones answer EIO."""
    door, before = Tunables(root, tmp_path, BOOT), contents(root)
    door.apply(door.plan(("eth1", "eth2")))
    refusing(monkeypatch, code, "irq/40/smp_affinity_list", "irq/42/smp_affinity_list")
    with pytest.raises(VerifyError) as error:
        door.restore()
    assert str(error.value).splitlines() == [
        f"echo 0-7 > /proc/irq/42/smp_affinity_list: {os.strerror(code)} (errno {code})",
        f"echo 0-7 > /proc/irq/40/smp_affinity_list: {os.strerror(code)} (errno {code})",
        "all other values are restored; a restart of the machine restores these",
    ]
    now = contents(root)
    assert {path: now[path] for path in now if now[path] != before[path]} == {
        "proc/irq/40/smp_affinity_list": "4",
        "proc/irq/42/smp_affinity_list": "6",
    }
    assert door.restore() == [], "a second restore, of a removal by apt, has nothing left to do"


def test_without_the_right_to_write_the_restore_can_be_repeated(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, before = Tunables(root, tmp_path, BOOT), contents(root)
    door.apply(door.plan(("eth1",)))
    with monkeypatch.context() as patched:
        refusing(patched, errno.EACCES, "smp_affinity_list")
        with pytest.raises(MissingError, match="run as root"):
            door.restore()
    door.restore()
    assert contents(root) == before


def test_a_reboot_ends_the_tune_and_gives_interrupts_other_numbers(root: Path, tmp_path: Path) -> None:
    """After it interrupt 40 is a disk's, which its owner has pinned; eth1 has 44 in its place."""
    door = Tunables(root, tmp_path, BOOT)
    door.apply(door.plan(("eth1",)))
    machine(root)
    (root / "sys/class/net/eth1/device/msi_irqs/40").rename(root / "sys/class/net/eth1/device/msi_irqs/44")
    write(root, {"proc/irq/40/smp_affinity_list": "3", "proc/irq/44/smp_affinity_list": "5"})
    rebooted, before = Tunables(root, tmp_path, "the next boot"), contents(root)
    assert rebooted.saved() == []
    rebooted.apply(rebooted.plan(("eth1",)))
    assert "proc/irq/40/smp_affinity_list" not in {one.path for one in rebooted.restore()}
    assert contents(root) == before


def test_values_of_an_unknown_boot_are_not_restored(root: Path, tmp_path: Path) -> None:
    """Older versions of Longhaul saved no boot id."""
    before = contents(root)
    (tmp_path / "tuned.json").write_text('{"version": 1, "before": {"proc/irq/40/smp_affinity_list": "3"}}')
    assert Tunables(root, tmp_path, BOOT).restore() == []
    assert contents(root) == before
    assert not (tmp_path / "tuned.json").exists()


def test_a_file_that_says_something_else_is_an_error(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Tunables(root, tmp_path, BOOT)
    settings = door.plan(("eth2",))
    monkeypatch.setattr(Path, "write_text", lambda path, text, encoding: None)
    with pytest.raises(VerifyError, match="reads back as"):
        door.apply(settings)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is damaged"),
        ('{"version": 1}', "is damaged"),
        ('{"version": 2, "before": {}}', "not written by this version"),
        ('{"version": 1, "before": {"etc/passwd": "x"}}', "not written by this version"),
        (
            '{"version": 1, "before": {"sys/class/net/../../etc/queues/rx-0/rps_cpus": "x"}}',
            "not written by this version",
        ),
    ],
)
def test_a_saved_file_is_believed_only_when_it_is_ours(root: Path, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "tuned.json").write_text(text)
    before = contents(root)
    with pytest.raises(InputError, match=reason):
        Tunables(root, tmp_path, BOOT).restore()
    assert contents(root) == before


@given(spoils)
def test_a_spoilt_file_is_set_aside_and_told_once(spoil: Spoil) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        door = Tunables(machine(folder / "root"), folder, BOOT)
        door.apply(door.plan(("eth1",)))
        spoil(folder / "tuned.json")
        with contextlib.suppress(InputError):
            door.restore()
        if "newer" not in refusal(door):
            door.apply(door.plan(("eth2",)))
            assert door.restore()


def refusal(door: Tunables) -> str:
    """Why the saved values cannot be read; empty when they can."""
    try:
        door.saved()
    except InputError as error:
        return str(error)
    return ""


def test_a_port_that_is_gone_is_left_out_of_the_restore(root: Path, tmp_path: Path) -> None:
    door = Tunables(root, tmp_path, BOOT)
    door.apply(door.plan(("eth1", "eth2")))
    (root / "sys/class/net/eth1").rename(tmp_path / "gone")
    assert all("eth1" not in one.path for one in door.restore())
    with pytest.raises(InputError, match="no such interface"):
        door.plan(("eth1",))


@pytest.mark.parametrize("online", ["0-1", "0"])
def test_a_machine_without_numa(root: Path, tmp_path: Path, online: str) -> None:
    (root / "sys/devices/system/node").rename(tmp_path / "nodes")
    (root / "sys/devices/system/cpu/online").write_text(online)
    cores = {one.after for one in Tunables(root, tmp_path, BOOT).plan(("eth1",)) if "irq" in one.path}
    assert cores == set(map(str, sysfs_affinity._cores(online)))


SCRIPT = """
set -e
mount -t sysfs none /sys
ip link add lane0 numtxqueues 2 numrxqueues 2 type veth peer name lane1 numtxqueues 2 numrxqueues 2
show() { cat /sys/class/net/lane0/queues/rx-*/rps_cpus /sys/class/net/lane0/queues/tx-*/xps_cpus | tr '\\n' ' '; echo; }
show
"$1" -m emulator tune lane0 --json > "$LONGHAUL_STATE/answer.json"
show
"$1" -m emulator tune --restore > /dev/null
show
"""


def test_rps_and_xps_of_a_veth_on_this_kernel(tmp_path: Path) -> None:
    """In a network and mount namespace of its own; needs root, as CI has."""
    ran = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", SCRIPT, "sh", sys.executable],
        cwd=ROOT, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LONGHAUL_STATE": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    before, tuned, restored = ran.stdout.splitlines()
    assert before == restored != tuned
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["changed"] == 4
    assert tuned.split() == [one["after"] for one in answer["settings"]]
    assert not (tmp_path / "tuned.json").exists()
