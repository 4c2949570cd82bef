"""What is different between two schedules, in words."""

from __future__ import annotations

from msgspec.structs import replace
from support.folders import TOPOLOGIES

from emulator.config import loader
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.schedule_diff import MOST_WORDS, differences

S = 10**9


def track(*keys: tuple[int, int], direction: str = "both") -> Track:
    """Keys of an RTT (or a delay of one direction): (s, ms)."""
    name = "rtt_ns" if direction == "both" else "delay_ns"
    return Track(("london",), tuple(Keyframe(at * S, ((name, ms * 10**6),)) for at, ms in keys), direction)


def test_a_new_and_a_removed_schedule() -> None:
    day = loader.load(TOPOLOGIES / "day.yaml").schedule
    assert day
    assert differences(None, day) == ["a schedule with 4 tracks and 12 keys is new"]
    assert differences(day, None) == ["the schedule is removed: the lanes stay at their own settings"]
    assert differences(None, None) == differences(day, day) == []


def test_each_key_that_is_different_has_a_sentence() -> None:
    old = Schedule((track((0, 80), (30, 120), (50, 80)),))
    new = Schedule((track((0, 80), (30, 140), (50, 80)),))
    assert differences(old, new) == ["london rtt: 140 ms from 30 s on, was 120 ms"]
    moved = Schedule((track((0, 80), (40, 120), (50, 80)),))
    assert differences(old, moved) == ["london rtt: the key at 30 s moves to 40 s"]
    both = Schedule((track((0, 80), (40, 130), (50, 80)),))
    assert differences(old, both) == ["london rtt: the key at 30 s moves to 40 s, to 130 ms"]
    added = Schedule((track((0, 80), (10, 90), (20, 95), (30, 120), (50, 80)),))
    assert differences(old, added) == ["london rtt: 90 ms from 10 s on is new", "london rtt: 95 ms from 20 s on is new"]
    assert differences(added, old)[0] == "london rtt: the key at 10 s (90 ms) is removed"


def test_tracks_and_settings_have_sentences_too() -> None:
    old = Schedule((track((0, 80)),))
    new = Schedule((track((0, 80)), track((0, 7), (5, 8), direction="inbound")), loop_ns=60 * S, step_ns=S // 10)
    assert differences(old, new) == [
        "the loop is 60 s, was none", "the step is 100 ms, was 1 s", "london inbound delay: a track with 2 keys is new",
    ]  # fmt: skip
    assert differences(new, old)[-1] == "london inbound delay: the track is removed"
    swapped = replace(new, tracks=new.tracks[::-1])
    assert differences(new, swapped) == ["tracks are in another order, or grouped in another way"]


def test_a_ramp_is_said_and_thousands_of_keys_are_not() -> None:
    old = Schedule((track((0, 80), (30, 120)),))
    ramp = replace(old.tracks[0].keys[1], ramp=True)
    new = Schedule((replace(old.tracks[0], keys=(old.tracks[0].keys[0], ramp)),))
    assert differences(old, new) == ["london rtt: 120 ms by a ramp from 30 s on, was 120 ms"]
    long = Schedule((track(*((at, 80 + at % 3) for at in range(1000))),))
    told = differences(old, long)
    assert len(told) == MOST_WORDS + 1
    assert told[-1].startswith("and ")
