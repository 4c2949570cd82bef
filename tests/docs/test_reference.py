"""The documentation's tables of keys are whole, and every value that they show can be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import made_recordings
from support.documented_examples import DOCS, pages
from support.generated_docs import key_rows

from emulator.config import loader, shipped_topologies
from emulator.config.program_schema import INSTEAD
from emulator.config.schema import DirectionForm, FlowForm, LaneForm
from emulator.model import program, request_load
from emulator.model.flow_group import Contest
from emulator.model.topology import Topology


def shown(form: str) -> list[tuple[str, str]]:
    """Every key of a form with each value that its table shows."""
    return [(key, value) for key, values, _ in key_rows(form) for value in values]


COMPOSITE = {"outbound", "inbound", "ports", "flows"}
ONE_WAY = DirectionForm.model_fields.keys() - LaneForm.model_fields.keys()
SHOWN = shown("LaneForm") + shown("DirectionForm")


def test_every_key_has_values() -> None:
    assert {key for key, _ in SHOWN} | COMPOSITE == LaneForm.model_fields.keys() | ONE_WAY
    forms = ("TopologyForm", "MatchForm", "ScheduleForm", "TrackForm", "KeyframeForm", "SweepForm", "ProgramForm")
    for form in (*forms, "RequestsForm"):
        assert {key for key, _ in shown(form)} | {"tracks", "keys"} >= {key for key, _, _ in key_rows(form)} - NESTED


NESTED = {"defaults", "lanes", "schedule", "sweep", "workload", "requests"}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the topologies stand: beside a path profile."""
    path = tmp_path_factory.mktemp("beside")
    made_recordings.folder(path / "paris", made_recordings.one_way(1, 2_000))
    return path


@pytest.mark.parametrize(("key", "value"), SHOWN, ids=lambda text: text.replace(" ", "_"))
def test_every_value_shown_is_read(beside: Path, key: str, value: str) -> None:
    base = {"rtt": "80ms", "rate": "1Gbit", "loss": "1%"}
    base |= {} if key in ONE_WAY else {key: value}
    base |= {"ports": "{hub: eth1, site: eth2}"} if key == "host" else {}
    if value == "none":
        base = {"rtt": "80ms", key: value}
    direction = f", outbound: {{{key}: {value}}}" if key in ONE_WAY else ""
    lane = ", ".join(f"{name}: {text}" for name, text in base.items()) + direction
    topology = loader.loads(f"{{name: x, hub: h, lanes: {{there: {{{lane}}}}}}}", folder=beside)
    assert loader.loads(loader.dumps(topology)) == topology


MATCHES = shown("MatchForm")
PLACES = {"schedule": "ScheduleForm", "track": "TrackForm", "key": "KeyframeForm"}
SCHEDULES = [(place, key, value) for place, form in PLACES.items() for key, value in shown(form)]


@pytest.mark.parametrize(("key", "value"), MATCHES)
def test_every_match_shown_is_read(key: str, value: str) -> None:
    lane = f"{{rtt: 8ms, flows: {{some: {{match: {{{key}: '{value}'}}, loss: 1%}}}}}}"
    topology = loader.loads(f"{{name: x, hub: h, lanes: {{there: {lane}}}}}")
    assert loader.loads(loader.dumps(topology)) == topology


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


SWEEPS = shown("SweepForm")


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


@pytest.mark.parametrize(("key", "value"), [one for one in shown("ProgramForm") if one[0] in INSTEAD])
def test_every_setting_of_flows_shown_is_read(tmp_path: Path, key: str, value: str) -> None:
    file, text = tmp_path / "flows.yaml", value if value[0] == "[" else f"'{value}'"
    file.write_text(f"{{name: x, hub: h, lanes: {{japan: {{rtt: 346ms}}}}, sweep: {{workload: {{{key}: {text}}}}}}}")
    (given,) = loader.load_sweep(file)[0]["workload"].values()
    assert given in ((Contest.parse("cubic:1,bbr:1"),), ("cubic", "bbr"))


@pytest.mark.parametrize(("key", "value"), [one for one in shown("ProgramForm") if one[0] not in INSTEAD])
def test_every_setting_of_a_program_shown_is_read(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "program.yaml"
    settings = {
        "client": "'true'",
        "server": "sleep 9",
        "ready": "'after:1s'",
        key: value if value[0] in "[{" else f"'{value}'",
    }
    flow = ", ".join(f"{name}: {text}" for name, text in settings.items())
    file.write_text(f"{{name: x, hub: h, lanes: {{japan: {{rtt: 346ms}}}}, sweep: {{workload: {{{flow}}}}}}}")
    given, places = loader.load_sweep(file)
    assert given["workload"].keys() == {"client", "server", "ready", "timeout_ns" if key == "timeout" else key}
    assert program.of_settings(given["workload"]).client
    assert places["workload.client"].endswith("program.yaml:1")


def test_the_page_of_presets_names_the_packages_of_each() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (?:`([\w,-]+)` )?\| ", (DOCS / "presets.md").read_text(), re.MULTILINE)
    sections = {name: loader.load_sweep(name)[0].get("workload", {}) for name in shipped_topologies.names()}
    needed = {name: set(one.get("packages", ())) for name, one in sections.items() if "client" in one}
    assert {name: set(filter(None, packages.split(","))) for name, packages in rows} == needed


BLOCKS = [
    (page.name, block) for page in pages() for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_every_topology_shown_is_read(page: str, block: str) -> None:
    assert loader.loads(block).lanes, page


def test_every_key_of_a_topology_is_in_the_table_or_an_example() -> None:
    table = {key for key, _, _ in key_rows("TopologyForm")}
    examples = set().union(*(yaml.safe_load(block) for _, block in BLOCKS))
    assert loader.json_schema()["properties"].keys() - {"sweep"} <= table | examples


def test_a_flow_has_the_keys_of_a_lane_and_a_match() -> None:
    assert FlowForm.model_fields.keys() - LaneForm.model_fields.keys() == {"match"}


@pytest.mark.parametrize(("key", "value"), shown("RequestsForm"))
def test_every_setting_of_requests_shown_is_read(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "requests.yaml"
    workload = f"{{requests: {{{key}: {value}}}}}"
    file.write_text(f"{{name: x, hub: h, lanes: {{japan: {{rtt: 346ms}}}}, sweep: {{workload: {workload}}}}}")
    given, places = loader.load_sweep(file)
    read = given["workload"]["requests"]
    assert read.keys() == {key}
    several = value.count(",") + 1
    assert len(list(request_load.loads(read))) == (1 if key == "count" else several)
    assert places["workload.requests"].endswith("requests.yaml:1")
