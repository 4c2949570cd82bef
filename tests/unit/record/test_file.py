"""Path profiles on disk: what is written is read, every mistake is told, and two of the same path are alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.folders import GOLDEN
from support.golden import golden
from support.made_recordings import MS, folder, one_way, round_trips

from emulator.config import loader
from emulator.errors import InputError
from emulator.model.impairment import Impairment
from emulator.model.loss_model import GilbertElliott
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.record import compare_profiles, file
from emulator.record.path_profile import ROUND_TRIPS
from emulator.record.probes import HEADER
from emulator.record.replay import onto, scheduled

GOLDEN = sorted((GOLDEN / "paths").glob("*.yaml"))


@pytest.fixture(scope="module")
def paris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording of bursts and jitter on the way there."""
    path = tmp_path_factory.mktemp("paths") / "paris"
    folder(path, one_way(1, 5_000))
    return path


def test_what_is_written_is_read(paris: Path) -> None:
    profile = file.load(paris)
    assert file.dumps(profile) == (paris / "profile.yaml").read_text()
    assert file.load(paris / "profile.yaml") == profile
    assert profile.outbound.table
    assert isinstance(profile.outbound.loss, GilbertElliott)
    assert isinstance(profile.inbound.loss, int)
    assert profile.inbound.table is None


def test_the_profile_is_of_the_path(paris: Path) -> None:
    profile = file.load(paris)
    out, back = profile.outbound, profile.inbound
    assert profile.rtt_ns[0] == pytest.approx(70 * MS, abs=MS / 10)
    assert out.found.median_ns.holds(44 * MS)
    assert out.found.lost.holds(0.01 / 0.26)
    assert out.found.burst and out.found.burst.holds(4)
    assert out.found.goodness and out.found.goodness.p_value > 0.001
    assert (back.delay_ns, back.jitter_ns) == (30 * MS, 0)
    assert back.found.lost.holds(0.01)
    assert back.found.packets == 5_000 - round(out.found.lost.value * 5_000)


def test_a_ping_has_all_that_changes_on_the_way_there(tmp_path: Path) -> None:
    profile = folder(tmp_path / "p", round_trips([80, 95, None, 81, 85] * 40), ROUND_TRIPS)
    assert (profile.inbound.delay_ns, profile.inbound.loss, profile.inbound.jitter_ns) == (40 * MS, 0, 0)
    assert profile.outbound.found.least_ns == 40 * MS
    assert profile.outbound.found.lost.value == 0.2


def test_a_recording_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no probe was answered: is paris up, and does it answer ping"):
        folder(tmp_path / "p", [])
    with pytest.raises(InputError, match="cannot create: File exists; name another with --output"):
        folder(tmp_path / "p", [])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_errors(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        file.load(path)
    reported = str(caught.value).replace(f"{path.parent}/", "") + "\n"
    assert reported == golden(path.with_suffix(".txt"), reported)


def test_there_are_golden_errors() -> None:
    assert len(GOLDEN) >= 3


def test_what_is_no_recording_is_told(tmp_path: Path, paris: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory; longhaul record writes"):
        file.load(tmp_path / "gone")
    (tmp_path / "recording.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match="its format is not 1"):
        file.recorded(tmp_path)
    (tmp_path / "recording.json").write_text((paris / "recording.json").read_text())
    (tmp_path / "probes.csv").write_text(f"{HEADER}\nx\n")
    with pytest.raises(InputError, match="line 2: 'x' is not a probe"):
        file.recorded(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name"),
        ("[]", "is not a dict"),
        ('{"format": 1, "host": "paris"}', "not a RecordingSource: .*Missing"),
        ('{"format": 1, "guest": "paris"}', "RecordingSource has no guest"),
        ('{"format": 1, "host": 5}', "5 is not a str"),
    ],
)
def test_a_damaged_recording_is_an_error_of_its_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "recording.json").write_text(text)
    with pytest.raises(InputError, match=f"recording.json: .*{problem}"):
        file.recorded(tmp_path)


def test_the_schema_knows_every_key_of_a_file(paris: Path) -> None:
    schema = file.json_schema()
    assert schema["title"] == "Longhaul path profile"
    assert set(file.tree(file.load(paris))) == set(schema["properties"])
    assert schema["$defs"]["FoundForm"]["properties"]["correlation"]["description"]


def test_a_path_is_like_itself_and_not_like_another(tmp_path: Path, paris: Path) -> None:
    one, again = file.load(paris), folder(tmp_path / "again", one_way(2, 5_000))
    assert [row.what for row in compare_profiles.compared(one, again, 10_000) if not row.alike] == []
    longer = folder(tmp_path / "longer", one_way(3, 5_000, leave=0.1))
    assert {row.what for row in compare_profiles.compared(one, longer, 10_000) if not row.alike} == {
        "loss",
        "loss in a row",
    }
    later = replace(one.outbound.found, median_ns=replace(again.outbound.found.median_ns, value=45 * MS, low=45 * MS))
    moved = replace(again, outbound=replace(again.outbound, delay_ns=again.outbound.delay_ns + MS, found=later))
    reported = [row.what for row in compare_profiles.compared(one, moved, 10_000) if not row.alike]
    assert reported == ["median delay", "shape (KS)"]


def test_a_profile_goes_onto_a_lane(paris: Path) -> None:
    profile, now = file.load(paris), Impairment(5 * MS, rate_bps=10**9, loss_p32=7, keep_order=False)
    lane = onto(Lane("far", now, now, off=True), profile)
    assert (lane.outbound.delay_ns, lane.outbound.jitter_ns) == (profile.outbound.delay_ns, profile.outbound.jitter_ns)
    assert (lane.outbound.distribution, lane.outbound.loss_model) == (profile.outbound.table, profile.outbound.loss)
    assert (lane.inbound.loss_p32, lane.inbound.loss_model) == (profile.inbound.loss, None)
    assert (lane.outbound.rate_bps, lane.outbound.keep_order, lane.off) == (10**9, False, False)


@pytest.mark.parametrize("loop", [True, False])
def test_a_trace_becomes_a_schedule(paris: Path, loop: bool) -> None:
    profile = file.load(paris)
    traces = {name: file.load_trace(paris, name) for name in file.DIRECTIONS}
    topology, length_ns = scheduled(
        Topology("t", "hub", (Lane("far"), Lane("near"))), "far", profile, traces, loop=loop
    )
    assert length_ns == 100 * 10**9
    assert topology.schedule
    line = Timeline(topology, topology.schedule)
    first, last = (line.at(t * 10**9).lane("far").outbound for t in (0, 99))
    assert first.delay_ns == pytest.approx(44 * MS, rel=0.03)
    assert first.jitter_ns == pytest.approx(4 * MS, rel=0.3)
    assert first.distribution == "uniform"
    assert last != first
    assert (line.at(100 * 10**9).lane("far").outbound == first) == loop
    assert line.at(50 * 10**9).lane("near") == Lane("near")


def lane(paris: Path, words: str, defaults: str = "") -> Lane:
    """A lane of a topology file beside the recording."""
    text = f"{{name: x, hub: h, defaults: {{{defaults}}}, lanes: {{far: {{{words}}}}}}}"
    return loader.loads(text, folder=paris.parent).lane("far")


@pytest.mark.parametrize("words", ["profile: paris", "profile: paris/profile.yaml"])
def test_a_lane_with_a_profile_is_the_recorded_path(paris: Path, words: str) -> None:
    found = lane(paris, words, "loss: 7%, ecn: yes, rate: 1Gbit")
    ecn = Impairment(loss_p32=1, ecn=True, rate_bps=10**9)
    assert found == onto(Lane("far", ecn, ecn), file.load(paris))
    assert found.outbound.distribution == file.load(paris).outbound.table


def test_what_a_lane_says_itself_goes_before_its_profile(paris: Path) -> None:
    measured = onto(Lane("far"), file.load(paris))
    assert lane(paris, "profile: paris, rtt: 200ms") == measured.with_rtt(200 * MS)
    assert lane(paris, "profile: paris, loss: 0%, inbound: {delay: 3ms}") == replace(
        measured,
        outbound=replace(measured.outbound, loss_model=None),
        inbound=replace(measured.inbound, delay_ns=3 * MS, loss_p32=0),
    )


def test_a_profile_that_is_none_is_told_at_its_line(paris: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: no profile\n")
    (tmp_path / "odd.yaml").write_text("path_profile: 1\noutbound: {delay: 5}\ninbound: {delay: 5ms}\n")
    (tmp_path / "half.yaml").write_text("path_profile: 1\noutbound: {delay: 5ms}\n")
    text = "name: x\nhub: h\nlanes:\n" + "".join(
        f"  {name}: {{profile: {value}}}\n"
        for name, value in (("a", "nowhere"), ("b", "other.yaml"), ("c", "odd.yaml"), ("d", "half.yaml"), ("e", "[1]"))
    )
    with pytest.raises(InputError) as wrong:
        loader.loads(text, "x.yaml", tmp_path)
    assert [mistake.where for mistake in wrong.value.mistakes] == [f"x.yaml:{line}" for line in range(4, 9)]
    reported = [mistake.text.replace(f"{tmp_path}/", "") for mistake in wrong.value.mistakes]
    assert reported == [
        "nowhere cannot be read: No such file or directory; longhaul record writes path profiles",
        "other.yaml is not a path profile of format 1: use a folder that longhaul record wrote",
        "odd.yaml: outbound.delay: '5' has no unit: write 5ms for milliseconds",
        "the path profile lacks the delay of a direction",
        "a list is not allowed here: use the folder of a path profile",
    ]
    with pytest.raises(InputError, match="a request cannot name a path profile"):
        loader.loads(text.replace("nowhere", str(paris)))
