"""Places: distances that an atlas confirms, round trips that physics allows, and files written from them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from emulator.cli import main
from emulator.config import loader
from emulator.errors import InputError
from emulator.model import geography

MS = 10**6


@pytest.mark.parametrize(
    ("one", "other", "km"),
    [("new-york", "london", 5570), ("new-york", "tokyo", 10_850), ("london", "sydney", 16_990), ("paris", "paris", 0)],
)
def test_distances(one: str, other: str, km: float) -> None:
    assert geography.distance_km(geography.place(one), geography.place(other)) == pytest.approx(km, rel=0.005, abs=1)


def test_there_are_many_and_every_one_is_on_earth() -> None:
    known = geography.places()
    assert len(known) >= 120
    assert all(abs(p.latitude) <= 90 and abs(p.longitude) <= 180 for p in known.values())
    assert list(known) == sorted(known)


def test_what_was_measured_goes_before_the_estimate() -> None:
    for site, rtt_ns in (("california", 32 * MS), ("london", 80 * MS), ("japan", 346 * MS)):
        for trip in (geography.trip("new-york", site), geography.trip(site, "new-york")):
            assert (trip.rtt_ns, trip.source) == (rtt_ns, geography.FOUNDING)
    assert geography.trip("new-york", "tokyo").source == "estimate: fibre along the great circle x 1.5"


def test_no_estimate_beats_light() -> None:
    names = list(geography.places())
    for one, other in pairwise(names):
        trip = geography.trip(one, other)
        assert trip.rtt_ns >= trip.least_ns - geography.STEP_NS
    assert geography.trip("new-york", "tokyo").rtt_ns == pytest.approx(159.4 * MS, rel=0.005)
    assert geography.trip("new-york", "tokyo", 2).rtt_ns == pytest.approx(212.5 * MS, rel=0.005)


def lane_rtt_ns(rtt: str) -> int:
    """The whole RTT of a lane that is written so."""
    lane = loader.loads(f"{{name: x, hub: h, lanes: {{a: {{rtt: {rtt}}}}}}}").lane("a")
    assert abs(lane.outbound.delay_ns - lane.inbound.delay_ns) <= 1
    return lane.rtt_ns


def test_an_access_counts_once_for_the_whole_round_trip() -> None:
    """A rival's preset of 600 ms is laid on *each* direction."""
    assert lane_rtt_ns("{access: geo}") == 600 * MS
    assert lane_rtt_ns("{from: new-york, to: london, access: lte}") == 130 * MS
    assert lane_rtt_ns("{from: new-york, to: tokyo, factor: 2}") == geography.trip("new-york", "tokyo", 2).rtt_ns


@pytest.mark.parametrize(
    ("rtt", "message"),
    [
        ("{from: new-yrok, to: london}", "there is no place 'new-yrok': did you mean new-york?"),
        ("{from: xqz, to: london}", "there is no place 'xqz': longhaul places lists all of them"),
        ("{from: london}", "a place is missing: use {from: PLACE, to: PLACE} or {access: NAME}"),
        ("{from: london, to: paris, via: rome}", "unknown key 'via'; the keys are from, to, factor, access"),
        ("{from: london, to: paris, factor: 0.5}", "factor '0.5' is not a number of at least 1, such as 1.5"),
        ("{access: pigeon}", "there is no access network 'pigeon': use dsl, cable, 5g, lte, leo or geo"),
        ("[1ms]", "a list is not allowed here: use a time, or {from: PLACE, to: PLACE}"),
    ],
)
def test_places_that_make_no_sense(rtt: str, message: str) -> None:
    with pytest.raises(InputError) as wrong:
        lane_rtt_ns(rtt)
    assert [m.text for m in wrong.value.mistakes] == [message]


def run(*args: str) -> str:
    result = CliRunner().invoke(main.cli, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_command_lists_and_estimates() -> None:
    assert len(run("places").splitlines()) == len(geography.places()) + 1
    (trip,) = json.loads(run("places", "new-york", "london", "--json"))
    assert (trip["rtt_ns"], trip["source"]) == (80 * MS, geography.FOUNDING)
    assert "estimate" in run("places", "london", "tokyo")


def test_a_star_is_a_topology(tmp_path: Path) -> None:
    text = run("star", "--hub", "new-york", "--sites", "london,tokyo,sao-paulo", "--access", "lte")
    star = loader.loads(text)
    assert star.sites == ("london", "tokyo", "sao-paulo")
    assert star.lane("london").rtt_ns == 130 * MS
    path = tmp_path / "star.yaml"
    run("star", "--hub", "paris", "--sites", "rome", "--rate", "none", "--output", str(path))
    assert loader.load(path).lane("rome").outbound.rate_bps is None
    assert main.main(["star", "--hub", "paris", "--sites", "rome", "--output", str(path)]) == 2
    assert main.main(["star", "--hub", "paris", "--sites", "atlantis"]) == 2
