"""Input without an end: every file that a topology names is regular and bounded, and work grows as its size does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from emulator.config import loader, yaml_source
from emulator.errors import InputError
from emulator.model import jitter_distribution, timeline, traces
from emulator.model.topology import MOST_LANES, MOST_VIRTUAL_LANES
from emulator.record import file as recorded
from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind

LANE = "name: t\nhub: h\nlanes: {{a: {{rtt: 8ms, {}}}}}\n"
TRACK = "name: t\nhub: h\nlanes: {{a: {{rtt: 8ms}}}}\nschedule: {{tracks: [{{trace: {}}}]}}\n"
NAMED = {
    "path_profile": (LANE, "path_profile: {}", bounded_file.PATH_PROFILE),
    "distribution": (LANE, "jitter: 1ms, distribution: {}", bounded_file.DISTRIBUTION),
    "trace": (TRACK, "{}", bounded_file.TRACE),
}


def mistake(path: Path) -> str:
    with pytest.raises(InputError) as error:
        loader.load(path)
    return str(error.value)


def topology(folder: Path, key: str, named: Path) -> Path:
    form, said, _ = NAMED[key]
    (folder / "t.yaml").write_text(form.format(said.format(named)))
    return folder / "t.yaml"


def too_large(path: Path, kind: FileKind) -> Path:
    path.touch()
    os.truncate(path, kind.most_bytes + 1)
    return path


@pytest.mark.parametrize("key", NAMED)
def test_no_end(key: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, said in ((Path("/dev/zero"), "it is a device"), (tmp_path / "fifo", "it is a FIFO")):
        assert f"cannot be read: {said}" in mistake(topology(tmp_path, key, path))


@pytest.mark.parametrize("key", NAMED)
def test_too_large_with_the_size_that_is_allowed(key: str, tmp_path: Path) -> None:
    kind = NAMED[key][2]
    said = mistake(topology(tmp_path, key, too_large(tmp_path / "large", kind)))
    assert f"it has more than {kind.most_bytes >> 20} MiB, the most that {kind.name} may have" in said


def test_a_topology_itself(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert mistake(tmp_path / "fifo").endswith("cannot be read: it is a FIFO; a topology is read from a regular file")
    assert mistake(Path("/dev/zero")).endswith("it is a device; a topology is read from a regular file")
    assert "more than 1 MiB, the most that a topology may have" in mistake(
        too_large(tmp_path / "large", bounded_file.TOPOLOGY)
    )


def test_a_path_profile_for_replay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "profile.yaml")
    with pytest.raises(InputError, match="it is a FIFO"):
        recorded.load(tmp_path)


def test_a_trace_of_one_endless_line() -> None:
    for text in ("x" * 300_000, "time,rtt\n" + "1" * 300_000):
        with pytest.raises(ValueError, match="larger than field limit"):
            traces.read_csv(text)
    with pytest.raises(ValueError, match="line 1: '11111111111111111111' is not a whole number of milliseconds"):
        traces.read_mahimahi("1" * 300_000)


def test_a_gap_of_a_year_in_a_trace_costs_nothing() -> None:
    keys, length = traces.read_mahimahi(f"1\n{366 * 86_400_000}\n")
    assert [key.at_ns // 10**6 for key in keys] == [0, 100, 366 * 86_400_000 - 100]
    assert length == 366 * 86_400 * 10**9


def test_a_mistake_quotes_no_whole_file() -> None:
    with pytest.raises(InputError) as error:
        loader.loads(f"name: t\nhub: h\nlanes: {{a: {{rtt: {'x' * 100_000}}}}}\n")
    assert len(str(error.value)) < 3000


def test_more_lanes_than_there_can_be_are_refused_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "read", lambda *_, **__: pytest.fail("a lane was read"))
    many = "\n".join(f"  l{i}: {{rtt: 1ms}}" for i in range(MOST_LANES + 1))
    with pytest.raises(InputError, match="lanes: too many lanes: 4095, 4094 at most"):
        loader.loads(f"name: t\nhub: h\nsubnet: 10.0.0.0/8\nlanes:\n{many}\n")


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls, C's too: its cost, on any machine."""
    count = 0

    def counted(_frame: FrameType, event: str, _what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def lanes(count: int) -> str:
    body = "\n".join(f"  l{i}: {{rtt: 1ms, queue: drop-tail}}" for i in range(count))
    return f"name: t\nhub: h\nsubnet: 10.0.0.0/8\nlanes:\n{body}\n"


def mistakes(count: int) -> str:
    return "name: t\nhub: h\nlanes:\n" + "\n".join(f"  l{i}: {{rtt: 1}}" for i in range(count))


def swallowed(text: str) -> None:
    with pytest.raises(InputError):
        loader.loads(text)


@pytest.mark.parametrize(
    "work",
    [
        lambda n: yaml_source.read(lanes(n), "t"),
        lambda n: loader.loads(lanes(n)),
        lambda n: swallowed(mistakes(n)),
        lambda n: jitter_distribution.parse("1 " * n),
        lambda n: traces.read_csv("time,rtt\n" + "\n".join(f"{i}s,1ms" for i in range(n))),
        lambda n: traces.read_mahimahi("\n".join(str(i) for i in range(1, n))),
    ],
    ids=["yaml", "lanes", "mistakes", "distribution", "csv", "mahimahi"],
)
def test_twice_the_input_is_twice_the_work(work: Callable[[int], object]) -> None:
    work(100)  # what is imported and cached at first
    once, twice = calls(lambda: work(400)), calls(lambda: work(800))
    assert twice < 2.3 * once


def test_the_hubs_switch_has_so_many_ports() -> None:
    with pytest.raises(InputError, match=f"lanes: too many lanes without ports: 1024, .* {MOST_VIRTUAL_LANES} at most"):
        loader.loads(lanes(MOST_VIRTUAL_LANES + 1))


def test_more_keys_than_a_schedule_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_KEYS", 3)
    with pytest.raises(ValueError, match="row 5: a schedule has 3 keys at most"):
        traces.read_csv("time,rtt\n" + "\n".join(f"{i}s,1ms" for i in range(9)))
    with pytest.raises(ValueError, match="5 changes of the rate are too many: a schedule has 3 keys at most"):
        traces.read_mahimahi("1\n201\n401\n")
    monkeypatch.setattr(timeline, "MOST_KEYS", 3)
    keys = ", ".join(f"{{at: {i}s, rtt: 1ms}}" for i in range(2))
    with pytest.raises(InputError, match="4 keys, counted for each lane, are too many: 3 at most"):
        loader.loads(f"{{name: t, hub: h, lanes: {{a: {{}}, b: {{}}}}, schedule: {{tracks: [{{keys: [{keys}]}}]}}}}")
