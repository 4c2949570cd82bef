"""The lab's promises: exact virtual time, an untouched host, nothing there that was not asked for."""

from __future__ import annotations

import mmap
import os
import select
import subprocess
import time
from pathlib import Path

from emulator.experiment.sweep_runner import LAB_ALGORITHMS


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, text=True, capture_output=True).stdout


def test_an_hour_passes_in_an_instant_and_to_the_millisecond() -> None:
    before = time.monotonic_ns()
    time.sleep(3600)
    assert 0 <= time.monotonic_ns() - before - 3600 * 10**9 < 1_000_000


def test_the_clock_starts_where_it_always_does() -> None:
    assert output("date", "-u", "+%Y-%m-%d").strip() == "2001-09-09"


def test_the_kernel_has_the_congestion_controls_that_a_sweep_may_name() -> None:
    there = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert sorted(there) == list(LAB_ALGORITHMS)


def test_only_the_loopback_is_there() -> None:
    assert [path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()] == ["lo"]


def test_the_host_is_hidden_but_for_the_current_folder() -> None:
    assert not Path("/usr/src").is_dir() or not list(Path("/usr/src").iterdir())
    assert (Path.cwd() / "pyproject.toml").exists()
    assert os.getuid() == 0


def test_our_source_cannot_be_written() -> None:
    try:
        Path("/opt/longhaul/src/emulator/probe").write_text("")
    except OSError as error:
        assert error.strerror == "Read-only file system"
    else:
        raise AssertionError("the source is writable")


def test_a_question_to_select_in_vain_takes_a_tenth_of_a_millisecond() -> None:
    """Who asks without end is waiting; where that took no time, it took minutes of ours."""
    reader, writer = os.pipe()
    before = time.monotonic_ns()
    assert not any(select.select([reader], [], [], 0)[0] for _ in range(100))
    assert 10_000_000 <= time.monotonic_ns() - before < 11_000_000
    os.write(writer, b"x")
    before = time.monotonic_ns()
    assert select.select([reader], [], [], 0)[0] == [reader]
    assert time.monotonic_ns() - before < 10_000


def test_who_does_nothing_with_what_select_found_waits_as_well() -> None:
    """As iperf3 before 3.16 does with a stream that it may write to, for a round trip."""
    reader, writer = os.pipe()
    before, turns = time.monotonic_ns(), 0
    while time.monotonic_ns() - before < 1_000_000_000:
        assert select.select([], [writer], [])[1] == [writer]
        turns += 1
    assert 9_900 < turns < 10_100
    before = time.monotonic_ns()
    for _ in range(1000):
        select.select([], [writer], [])
        os.write(writer, b"x")
        os.read(reader, 1)
    assert time.monotonic_ns() - before < 1_000_000


def test_what_is_written_is_the_writers_alone(tmp_path: Path) -> None:
    """The kernel gives a program sixteen pages at a time; none of them changes anything for another."""
    page, pages = mmap.PAGESIZE, 40
    path, content = tmp_path / "file", b"".join(bytes([n]) * page for n in range(pages))
    path.write_bytes(content)
    with path.open("r+b") as file:
        private, cut = (mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) for _ in range(2))
        shared = mmap.mmap(file.fileno(), 0)
    private[5 * page] = 99
    assert private[:] == content[: 5 * page] + b"\x63" + content[5 * page + 1 :]
    assert shared[:] == path.read_bytes() == content
    shared[7 * page] = 88
    assert path.read_bytes()[7 * page] == 88
    os.truncate(path, 3 * page)
    cut[page] = 77  # what stands around it ends with the file
    assert cut[: 3 * page] == content[:page] + b"\x4d" + content[page + 1 : 3 * page]
    memory = bytearray(pages * page)
    if (child := os.fork()) == 0:
        memory[20 * page] = 1
        os._exit(sum(memory))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert sum(memory) == 0
