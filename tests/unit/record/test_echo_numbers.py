"""ping counts beyond ICMP's 16 bits: long recordings, and outages longer than all sequence numbers."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_recordings import Ended

from emulator.hosts.tools import ping
from emulator.hosts.tools.ping import SEQUENCES
from emulator.hosts.tools.process import Completed
from emulator.record.probes import RecordedProbe
from emulator.record.recorder import EchoNumbers, Notebook, Task, by_ping

MS, EVERY_NS = 10**6, 10 * 10**6
BEGAN_NS = 10**18


def lines(numbers: list[int]) -> str:
    """What ping prints when only the echoes of these numbers are answered, in the end its summary."""
    said = [
        f"[{(BEGAN_NS + number * EVERY_NS) // 1000 / 10**6:.6f}] 64 bytes from 1: "
        f"icmp_seq={number % SEQUENCES} ttl=64 time=0.000 ms"
        for number in numbers
    ]
    return "\n".join([*said, f"{numbers[-1]} packets transmitted, {len(numbers)} received"])


def recorded(folder: Path, numbers: list[int]) -> list[RecordedProbe]:
    """What a recording of these answers holds."""

    class Host:
        def start(self, _: list[str]) -> Ended:
            return Ended(lines(numbers))

        def run(self, argv: list[str], timeout_s: float) -> Completed:
            return Completed(tuple(argv), "", "", 0)

    with Notebook(folder, lambda _: None) as notebook:
        by_ping(Task(Host(), "paris", EVERY_NS, (numbers[-1] - 1) * EVERY_NS), notebook)  # type: ignore[arg-type]
    return notebook.probes


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 2, 65_535, 65_536, 65_537, 65_538],
        [2, 3, 40_000, 110_000, 110_001],
        [2, SEQUENCES + 2, 2 * SEQUENCES + 2],
        [1, 2, 3, 5, 4],
    ],
    ids=["all sequence numbers", "an outage of more than half of them", "of all of them", "out of order"],
)
def test_a_recording_has_each_probe_at_its_place(tmp_path: Path, numbers: list[int]) -> None:
    counted = [number for number in numbers if number > 1]
    probes = recorded(tmp_path, numbers)
    assert [probe.number for probe in probes] == [number - 2 for number in counted]
    assert [probe.sent_ns for probe in probes] == [(number - 2) * EVERY_NS for number in counted]


@given(
    st.lists(st.one_of(st.integers(1, 5), st.integers(1, 600_000)), min_size=1, max_size=30),
    st.floats(0.98, 1.02),
)
def test_any_outage_is_counted_although_ping_does_not_keep_its_interval(gaps: list[int], pace: float) -> None:
    numbers = EchoNumbers(EVERY_NS)
    for number in accumulate(gaps, initial=1):
        assert numbers.number(number % SEQUENCES, BEGAN_NS + round(number * EVERY_NS * pace)) == number


def test_the_summary_and_the_answers_agree_after_all_sequence_numbers() -> None:
    numbers = list(range(1, SEQUENCES + 100))
    numbers.remove(SEQUENCES + 7)
    found = ping.parse(lines(numbers))
    assert (len(found.rtts_ns), found.lost) == (SEQUENCES + 97, 1)


def test_of_duplicates_the_first_answer_counts() -> None:
    text = "icmp_seq=1 ttl=64 time=9 ms\nicmp_seq=2 ttl=64 time=80 ms\nicmp_seq=2 ttl=64 time=95 ms (DUP!)\n"
    assert ping.parse(text + "2 packets transmitted").rtts_ns == (80 * MS,)
