"""The README's tables of keys are whole, and every value that they show can be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import made_recordings
from support.folders import ROOT

from emulator.config import loader
from emulator.config.schema import DirectionForm, FlowForm, LaneForm, MatchForm
from emulator.config.sweep_schema import SweepForm
from emulator.model.topology import Topology

README = (ROOT / "README.md").read_text()
ROWS = re.findall(
    r"^\| `([a-z_]+)`(?: \(in [^|]*\))? \| (`[^|]*`) \|",
    README.partition("| key | values")[2].partition("| match |")[0],
    re.MULTILINE,
)
SHOWN = [(key, value) for key, values in ROWS for value in re.findall(r"`([^`]+)`", values)]


def test_every_key_is_in_the_table() -> None:
    keys = (LaneForm.model_fields.keys() | DirectionForm.model_fields.keys()) - {
        "outbound",
        "inbound",
        "ports",
        "flows",
    }
    assert {key for key, _ in SHOWN} == keys


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the topologies stand: beside a path profile."""
    path = tmp_path_factory.mktemp("beside")
    made_recordings.folder(path / "paris", made_recordings.one_way(1, 2_000))
    return path


@pytest.mark.parametrize(("key", "value"), SHOWN, ids=lambda text: text.replace(" ", "_"))
def test_every_value_shown_is_read(beside: Path, key: str, value: str) -> None:
    base = {"rtt": "80ms", "rate": "1Gbit", "loss": "1%"}
    base |= {} if key in ("delay", "seed") else {key: value}
    base |= {"ports": "{hub: eth1, site: eth2}"} if key == "host" else {}
    if value == "none":
        base = {"rtt": "80ms", key: value}
    direction = f", outbound: {{{key}: {value}}}" if key in ("delay", "seed") else ""
    lane = ", ".join(f"{name}: {text}" for name, text in base.items()) + direction
    topology = loader.loads(f"{{name: x, hub: h, lanes: {{there: {{{lane}}}}}}}", folder=beside)
    assert loader.loads(loader.dumps(topology)) == topology


def rows_of(head: str) -> list[tuple[str, str, str]]:
    """Of the table that begins so, every key, what it is in ("" where that is not said) and each value shown."""
    table = README.partition(f"| {head} |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_]+)`(?: \(in an? ([a-z]+)\))? \| (`[^|]*`) \|", table, re.MULTILINE)
    return [(key, place, value) for key, place, values in rows for value in re.findall(r"`([^`]+)`", values)]


MATCHES = [(key, value) for key, _, value in rows_of("match")]
SCHEDULES = [(place or "schedule", key, value) for key, place, value in rows_of("schedule")]


def test_every_key_of_a_match_is_in_its_table() -> None:
    assert {key for key, _ in MATCHES} == MatchForm.model_fields.keys()


@pytest.mark.parametrize(("key", "value"), MATCHES)
def test_every_match_shown_is_read(key: str, value: str) -> None:
    lane = f"{{rtt: 8ms, flows: {{some: {{match: {{{key}: '{value}'}}, loss: 1%}}}}}}"
    topology = loader.loads(f"{{name: x, hub: h, lanes: {{there: {lane}}}}}")
    assert loader.loads(loader.dumps(topology)) == topology


def test_every_key_of_a_schedule_is_in_its_table() -> None:
    forms = loader.json_schema()["$defs"]
    for place, form in (("schedule", "ScheduleForm"), ("track", "TrackForm"), ("key", "KeyForm")):
        assert {key for at, key, _ in SCHEDULES if at == place} == forms[form]["properties"].keys()


def scheduled(folder: Path, place: str = "", key: str = "", value: str = "") -> Topology:
    """Two lanes and a schedule of one track with two keys, of which one says that."""

    def flow(at: str, tree: dict[str, str], instead_of: str = "") -> str:
        own = {key: value} if at == place else {}
        said = {name: text for name, text in (tree | own).items() if not own or name != instead_of}
        return f"{{{', '.join(f'{name}: {text}' for name, text in said.items())}}}"

    first = "" if key == "at" else "{at: 0ms, delay: 40ms}, "
    last = flow("key", {"at": "2s", "delay": "30ms"}, "delay" if key == "rtt" else "")
    track = flow("track", {"keys": f"[{first}{last}]"}, "keys" if key == "trace" else "")
    schedule = flow("schedule", {"tracks": f"[{track}]"})
    lanes = "{london: {rtt: 80ms}, tokyo: {rtt: 160ms}}"
    return loader.loads(f"{{name: x, hub: h, lanes: {lanes}, schedule: {schedule}}}", folder=folder)


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A folder with the traces that are shown."""
    (tmp_path / "lte.csv").write_text("time,delay_ms,loss\n0s,40,1%\n1s,50,2%\n")
    (tmp_path / "cable.down").write_text("1\n2\n150\n")
    return tmp_path


@pytest.mark.parametrize(("place", "key", "value"), SCHEDULES)
def test_every_schedule_shown_is_read(traced: Path, place: str, key: str, value: str) -> None:
    topology = scheduled(traced, place, key, value)
    assert topology.schedule
    assert loader.loads(loader.dumps(topology)) == topology


@pytest.mark.parametrize(("place", "key"), dict.fromkeys((place, key) for place, key, _ in SCHEDULES))
def test_every_key_of_a_schedule_means_something(traced: Path, place: str, key: str) -> None:
    values = [value for at, name, value in SCHEDULES if (at, name) == (place, key)]
    assert any(scheduled(traced, place, key, value).schedule != scheduled(traced).schedule for value in values)


SWEEPS = [(key, value) for key, _, value in rows_of("key of a sweep")]


def test_every_key_of_a_sweep_is_in_its_table() -> None:
    assert {key for key, _ in SWEEPS} == SweepForm.model_fields.keys()


@pytest.mark.parametrize(("key", "value"), SWEEPS)
def test_every_sweep_shown_is_read(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "swept.yaml"
    file.write_text(
        f"{{name: x, hub: h, lanes: {{california: {{rtt: 32ms}}, japan: {{rtt: 346ms}}}}, sweep: {{{key}: {value}}}}}"
    )
    given, _ = loader.load_sweep(file)
    assert given.keys() == {key}
    read = given[key]
    assert len(read if isinstance(read, tuple | list) else [read]) == len(value.split(","))


BLOCKS = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def test_every_topology_shown_is_read() -> None:
    assert len(BLOCKS) >= 2
    for block in BLOCKS:
        loader.loads(block)


def test_every_key_of_a_topology_is_in_the_table_or_an_example() -> None:
    table = set(re.findall(r"^\| `([a-z_]+)` \(of the topology\) \|", README, re.MULTILINE))
    shown = table.union(*(yaml.safe_load(block) for block in BLOCKS))
    assert loader.json_schema()["properties"].keys() == shown


def test_a_flow_has_the_keys_of_a_lane_and_a_match() -> None:
    assert FlowForm.model_fields.keys() - LaneForm.model_fields.keys() == {"match"}
