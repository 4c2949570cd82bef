"""The lab seen from the host: exit codes, bytes, boundaries, and that nothing is left behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from support.folders import ROOT, TESTS
from support.waiting import PATIENCE_S, until

from emulator.errors import LabError, LabStalled, LabTimeout
from emulator.lab import (
    boot,
    boot_options,
    boundary,
    build_cache,
    build_image,
    build_kernel,
    compile_pyc,
    landlock,
    programs,
    runtime,
)
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice

LOSSY_TRANSFER = """
longhaul up {topology} >/dev/null
ip netns exec lh-far iperf3 -s -1 -D
sleep 1
ip netns exec lh-near iperf3 -c 10.77.0.2 -t 5 -J |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bytes"])'
"""
AS_NOBODY = """
mkdir -m 777 project cache here tmp
mount --bind {project} project
mount --bind {cache} cache
cd here
exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --no-new-privs \\
  env -i PATH=/usr/bin:/bin TMPDIR={folder}/tmp XDG_CACHE_HOME={folder}/cache PYTHONDONTWRITEBYTECODE=1 \\
  PYTHONPATH={folder}/project:{folder}/project/{packages} \\
  /usr/bin/python3 -m emulator lab run -- sh -c 'id -u; echo on > on'
"""
SCATTERED_PAGES = 80_000
SCATTERED = f"""
import mmap
one, other = (mmap.mmap(-1, {SCATTERED_PAGES // 2} * mmap.PAGESIZE) for _ in "ab")
for at in range(0, len(one), mmap.PAGESIZE):
    one[at] = other[at] = 1
"""
LOSSY = """name: lossy
hub: near
seed: {seed}
lanes:
  far: {{rtt: 20ms, rate: 100Mbit, loss: 0.1%}}
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder for these labs alone: others may be running on this machine."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


def left_behind() -> list[str]:
    return [path.name for path in runtime.parent().glob(f"{runtime.PREFIX}*")]


def lab_processes() -> list[str]:
    mark = f"{os.environ['TMPDIR']}/{runtime.PREFIX}".encode()
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mark in command_line(path)]


def until_ended() -> bool:
    """Whether no process of a lab is left in time: a killed one still needs the processor to end."""
    return until(lambda: lab_processes() == [])


def command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_the_exit_code_comes_through(script: str, code: int) -> None:
    assert boot.capture(["sh", "-c", script]).exit_code == code
    assert left_behind() == []


def test_a_command_that_goes_away_meanwhile_is_127(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "check", lambda *_: None)
    done = boot.capture(["no-such-command"])
    assert (done.exit_code, done.stderr) == (127, b"no-such-command: No such file or directory\n")


def test_both_outputs_come_byte_clean(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data := os.urandom(8 << 20))
    done = boot.capture(["sh", "-c", "cat data; cat data >&2"], BootOptions(tmp_path))
    want = hashlib.sha256(data).hexdigest()
    assert [hashlib.sha256(out).hexdigest() for out in (done.stdout, done.stderr)] == [want, want]


def test_the_current_folder_is_shared_and_no_other(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    done = boot.capture(["sh", "-c", f"echo written > {here}/file; ls {other}"], BootOptions(here))
    assert (here / "file").read_text() == "written\n"
    assert b"No such file" in done.stderr


def test_a_program_with_more_mappings_than_this_machine_permits_is_told_what_helps() -> None:
    """Pages that lie apart take a mapping each. Where the machine permits many, the program ends well."""
    done = boot.capture(["python3", "-c", SCATTERED])
    if int(runtime.MAPPINGS.read_text()) < SCATTERED_PAGES:
        assert done.exit_code == 128 + signal.SIGSEGV
        assert done.stderr.decode() == f"longhaul: {runtime.few_mappings()}\n"
    else:
        assert (done.exit_code, done.stderr) == (0, b"")


def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(LabTimeout, match="not done after 2 s"):
        boot.run(["sleep", "1000"], BootOptions(real_time=True, timeout_s=2))
    assert left_behind() == []
    assert until_ended()


@pytest.mark.parametrize("loop", ["while True: pass", "import os\nwhile True: os.getpid()"])
def test_a_live_lock_ends_with_what_was_running(loop: str) -> None:
    with pytest.raises(LabStalled, match="virtual clock stood still") as error:
        boot.run(["python3", "-c", loop], BootOptions(stall_cpu_s=3))
    assert "python3 -c" in str(error.value)
    assert left_behind() == []
    assert until_ended()


TIMES = """
import time
times = [time.monotonic()]
for act in (lambda: time.sleep(1000), lambda: sum(range(10**7))):
    act()
    times.append(time.monotonic())
print(times[1] - times[0], times[2] - times[1])
"""


@pytest.mark.parametrize(("counted", "least_s", "most_s"), [(False, 0, 1e-4), (True, 1e-3, 100)])
def test_computing_takes_time_where_it_is_counted_and_idle_time_is_skipped(
    counted: bool, least_s: float, most_s: float
) -> None:
    began = time.monotonic()
    slept, computed = map(float, boot.capture(["python3", "-c", TIMES], BootOptions(counted=counted)).stdout.split())
    assert slept == pytest.approx(1000, abs=1)
    assert least_s <= computed <= most_s
    assert time.monotonic() - began < 500


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_it_dies_with_its_launcher(sign: signal.Signals, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "emulator", "lab", "run", "--real-time", "--", "sh", "-c", "touch on; sleep 1000"]
    # A shell's background job inherits SIGINT ignored; a handler of ours becomes the default in the launcher.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    launcher = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, process_group=0)
    assert until((tmp_path / "on").exists)
    launcher.send_signal(sign)
    assert launcher.wait(PATIENCE_S) != 0
    assert until_ended()
    boot.run(["true"])  # sweeps what a killed launcher could not
    assert left_behind() == []


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    def received(seed: int) -> int:
        (tmp_path / "lossy.yaml").write_text(LOSSY.format(seed=seed))
        script = LOSSY_TRANSFER.format(topology="lossy.yaml")
        done = boot.capture(["sh", "-c", script], BootOptions(tmp_path, seed=seed))
        assert done.exit_code == 0, done.stderr
        return int(done.stdout)

    first = received(1)
    assert first > 0
    assert received(1) == first
    assert received(2) != first


def test_a_file_that_is_read_for_the_first_time_changes_no_frame(tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "topologies/new-york.yaml", tmp_path / "star.yaml")
    argv = [sys.executable, "-m", "emulator", "lab", "run", "--pcap", "cap", "--", "sh", "-c"]
    seen = []
    for _ in range(2):
        command = [*argv, "longhaul up star.yaml && (ping -c 3 -i 0.2 10.0.0.1; longhaul verify --count 3)"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
        seen.append({file.name: file.read_bytes() for file in (tmp_path / "cap").iterdir()})
        shutil.rmtree(tmp_path / "cap")
    assert len(seen[0]) == 12
    assert seen[0] == seen[1]


def test_random_numbers_come_from_the_seed_alone() -> None:
    def drawn(seed: int) -> bytes:
        script = "head -c 16 /dev/urandom | od; cat /proc/sys/kernel/random/uuid"
        return boot.capture(["sh", "-c", script], BootOptions(seed=seed)).stdout

    first = drawn(1)
    assert len(first.splitlines()) == 3
    assert drawn(1) == first
    assert drawn(2) != first


def test_launchers_at_once_leave_one_another_alone() -> None:
    def is_left_alone(_: int) -> bool:
        with runtime.runtime_folder() as folder:
            return (folder / "lock").exists()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_left_alone, range(400)))
    assert left_behind() == []


def test_nobody_may_run_it() -> None:
    """No root, no capability: once built, the lab is anyone's. (Bind mounts lead past folders closed to others.)"""
    build_kernel.build(lambda *_: None), build_image.build(lambda *_: None)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        packages = Path(click.__file__).parents[1].relative_to(ROOT)
        script = AS_NOBODY.format(project=ROOT, cache=build_cache.folder().parent, folder=folder, packages=packages)
        # In a mount namespace of its own, so that the mounts go with it.
        argv = ["unshare", "--mount", "sh", "-euc", script]
        done = subprocess.run(argv, cwd=folder, check=False, text=True, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
        assert (Path(folder) / "here/on").owner() == "nobody"
        assert list((Path(folder) / "tmp").glob(f"{runtime.PREFIX}*")) == []


def test_a_guest_that_does_not_boot_says_why() -> None:
    with pytest.raises(LabError, match="the lab ended before the command did"):
        boot.run(["true"], BootOptions(memory_bytes=8 << 20))
    assert left_behind() == []


def test_a_folder_that_takes_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc")  # Where root may write, and nobody can make a file.
    with pytest.raises(LabError, match=r"/proc .*TMPDIR"):
        boot.run(["true"], choice=RootChoice(host=True))


def test_floating_point_registers_survive_all_that_happens_to_a_program(tmp_path: Path) -> None:
    program = tmp_path / "registers"
    source = TESTS / "support/registers.c"
    subprocess.run(["gcc", "-O1", "-static", "-pthread", "-o", program, source], check=True)
    done = boot.capture([str(program)], BootOptions(tmp_path))
    # Three processes, of three threads with 300 looks each.
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"900\n" * 3, b"")


def test_no_program_in_the_lab_compiles_what_it_imports() -> None:
    modules = "json, pyroute2, emulator.experiment.run_cell, web.context"
    asked = f"import os, {modules}; print([m.__name__ for m in ({modules}) if not os.path.exists(m.__cached__)])"
    done = boot.capture(["python3", "-c", asked])
    assert (done.stdout, done.stderr) == (b"[]\n", b"")


def test_a_source_is_compiled_for_the_lab_when_it_has_changed_and_only_then(tmp_path: Path) -> None:
    root, source = build_image.build(lambda *_: None), tmp_path / "emulator/one.py"
    source.parent.mkdir()
    source.write_text("NUMBER = 1\n")
    compile_pyc.compile_project(root, [tmp_path])
    compiled = source.parent / f"__pycache__/one.{compile_pyc.TAG}.pyc"
    first = compiled.stat().st_mtime_ns, compiled.read_bytes()
    compile_pyc.compile_project(root, [tmp_path])
    assert (compiled.stat().st_mtime_ns, compiled.read_bytes()) == first
    source.write_text("NUMBER = 2\n")
    compile_pyc.compile_project(root, [tmp_path])
    assert compiled.read_bytes() != first[1]


OUTSIDE = """
mkdir /m
mount -t hostfs none /m -o hostfs={outside}
cat /m/secret; echo lost > /m/secret; echo new > /m/new; rm /m/secret; mv /m/secret {here}/; truncate -s 0 /m/secret
runtime=$(tr ' ' '\\n' < /proc/cmdline | sed -n 's,^longhaul_run=,,p')
mount -t hostfs none /m -o hostfs=$runtime
echo forged > /m/init.py; echo new > /m/new
mount -t hostfs none /m -o hostfs=$(dirname $runtime)
cat /m/lock; echo forged > /m/console; rm -rf /m/guest
ls /lab/run
mknod {here}/device b 8 1
echo "$runtime"
"""


def test_root_in_the_lab_opens_no_file_that_is_not_mounted(tmp_path: Path) -> None:
    """It may mount any folder of the host: the host's kernel refuses what it does there, or `lab info` says not."""
    here, outside = tmp_path / "here", tmp_path / "outside"
    here.mkdir(), outside.mkdir()
    (outside / "secret").write_text("secret")
    done = boot.capture(["sh", "-c", OUTSIDE.format(here=here, outside=outside)], BootOptions(here))
    *listed, runtime = done.stdout.decode().splitlines()
    assert (done.exit_code, Path(runtime).name) == (0, "guest")
    if boundary.weaknesses(landlock.abi()):
        return
    assert (listed, done.stderr.count(b"Permission denied")) == ([], 17), done.stderr.decode()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert list(here.iterdir()) == []


def test_without_a_folder_the_command_can_change_nothing_of_the_host() -> None:
    done = boot.capture(["sh", "-c", "pwd; grep hostfs /proc/mounts | grep -v ' ro,'"])
    assert (done.stdout, done.stderr) == (b"/tmp\n", b"")


REPLACED = """
runtime=$(tr ' ' '\\n' < /proc/cmdline | sed -n 's,^longhaul_run=,,p')
mkdir /mnt; mount -t hostfs none /mnt -o hostfs=$(dirname $runtime)
for name in guest/stdout guest/stderr guest/heartbeat guest/exit console; do rm /mnt/$name; {put} /mnt/$name; done
ls /mnt/guest /mnt | grep -c 'exit\\|console'
exit 5
"""


@pytest.mark.parametrize("put", ["mkfifo", "ln -s /dev/zero", "ln -s {secret}", "mkdir"])
def test_a_report_that_was_replaced_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: str) -> None:
    """Where the host has no Landlock, root in the lab may put anything in the places of its reports."""
    (secret := tmp_path / "secret").write_text("7")
    monkeypatch.setattr(boot, "_allowed", lambda *_: None)
    script = REPLACED.replace("{put}", put.replace("{secret}", str(secret)))
    done = boot.capture(["sh", "-c", script], BootOptions(timeout_s=PATIENCE_S))
    assert (done.exit_code, done.stdout, done.stderr) == (5, b"2\n", b"")


def test_a_report_that_was_tampered_with_is_no_traceback() -> None:
    """Root in the lab may write what it likes into its own reports: it is its own result that it spoils."""
    forged = "for fd in 3 4 5 6 7 8 9; do echo nonsense > /proc/1/fd/$fd; done"
    with pytest.raises(LabError, match="the lab ended before the command did"):
        boot.run(["sh", "-c", forged], BootOptions(stdout=lambda _: None, stderr=lambda _: None))


@pytest.mark.parametrize("name", ["a b,c", "new\nline", os.fsdecode(b"latin\xff"), "quote'\"$()"])
def test_a_folder_of_any_name_is_shared(name: str, tmp_path: Path) -> None:
    (here := tmp_path / name).mkdir()
    boot.run(["sh", "-c", "echo written > file"], BootOptions(here))
    assert (here / "file").read_text() == "written\n"


def test_a_runtime_folder_that_the_kernels_command_line_cannot_hold_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a init=/bin/sh"))
    with pytest.raises(LabError, match=r"TMPDIR is '.*init=/bin/sh': set it to a short name of letters"):
        boot.run(["true"])


@pytest.mark.parametrize("start_ns", [0, boot_options.parse_start_ns("2199-12-31T23:59:59")])
def test_the_clock_starts_at_either_end_of_its_range(start_ns: int) -> None:
    done = boot.capture(["date", "+%s"], BootOptions(start_ns=start_ns))
    assert int(done.stdout) == start_ns // 10**9


def test_the_least_memory_boots() -> None:
    assert boot.run(["true"], BootOptions(memory_bytes=boot_options.LEAST_MEMORY_BYTES)) == 0
