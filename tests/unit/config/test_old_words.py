"""The old words of topology files and requests: read for one release, with a hint; both at once are a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.config import lane_patch, loader
from emulator.errors import InputError

OLD = """\
name: t
hub: h
defaults: {rate: 1Gbit, queue: codel}
lanes:
  a: {rtt: 8ms, outbound: {queue: red}}
  b:
    rtt: 8ms
    flows:
      f: {match: {vlan: 7}, inbound: {rate: 1Mbit, queue: fq-codel}}
"""


def test_old_words_mean_what_they_meant_and_each_is_hinted_at() -> None:
    hints: list[str] = []
    found = loader.loads(OLD, "x.yaml", hints=hints)
    assert found == loader.loads(OLD.replace("queue", "aqm"))
    assert (found.lane("a").outbound.aqm, found.lane("a").inbound.aqm) == ("red", "codel")
    assert found.lane("b").flows[0].inbound.aqm == "fq-codel"
    new = "'queue' is now called 'aqm'; the old word is read for this release only"
    assert hints == [
        f"x.yaml:3: defaults.queue: {new}",
        f"x.yaml:5: lanes.a.outbound.queue: {new}",
        f"x.yaml:9: lanes.b.flows.f.inbound.queue: {new}",
    ]


def test_new_words_are_not_hinted_at() -> None:
    hints: list[str] = []
    loader.loads(OLD.replace("queue", "aqm"), hints=hints)
    assert hints == []


def test_what_is_wrong_is_told_by_the_new_word_in_its_line() -> None:
    with pytest.raises(InputError, match=r"x.yaml:5: lanes.a.outbound.aqm: 'green' is not one of"):
        loader.loads(OLD.replace("queue: red", "queue: green"), "x.yaml")


@pytest.mark.parametrize("words", ["queue: red, aqm: red", "aqm: codel, queue: red"])
def test_both_words_at_once_are_a_mistake(words: str) -> None:
    with pytest.raises(InputError) as wrong:
        loader.loads(OLD.replace("queue: red", words), "x.yaml")
    assert str(wrong.value) == "x.yaml:5: lanes.a.outbound.queue: 'queue' is the old word for 'aqm': write aqm alone"


def test_a_profile_of_a_lane_is_a_path_profile(tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text(
        "path_profile: 1\noutbound: {delay: 5ms}\ninbound: {delay: 6ms, jitter: 1ms}\n"
    )
    text, hints = "name: t\nhub: h\nlanes:\n  a: {profile: .}\n", list[str]()
    lane = loader.loads(text, "x.yaml", tmp_path, hints).lane("a")
    assert (lane.outbound.delay_ns, lane.inbound.jitter_ns) == (5_000_000, 1_000_000)
    assert hints == [
        "x.yaml:4: lanes.a.profile: 'profile' is now called 'path_profile'; the old word is read for this release only"
    ]
    assert loader.loads(text.replace("profile:", "path_profile:"), "x.yaml", tmp_path).lane("a") == lane


def test_requests_may_use_them_too() -> None:
    star, hints = loader.loads(OLD.replace("queue", "aqm")), list[str]()
    lane = lane_patch.patched(star, "b", {"queue": "red", "flows": {"f": {"queue": None}}}, hints=hints).lane("b")
    assert (lane.outbound.aqm, lane.inbound.aqm, lane.flows[0].inbound.aqm) == ("red", "red", "drop-tail")
    assert [hint.split(": ")[1] for hint in hints] == ["lanes.b.queue", "lanes.b.flows.f.queue"]
    with pytest.raises(InputError, match="'queue' is the old word for 'aqm'"):
        lane_patch.patched(star, "b", {"queue": "red", "aqm": "red"})
