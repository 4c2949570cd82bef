"""Every axis is in the topology file, on the command line, in the API and in the web form: one name, one limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.made_results import execution
from support.web_daemon import House, until

from emulator import units
from emulator.cli.sweep import sweep
from emulator.config import loader
from emulator.config.sweep_schema import SweepForm
from emulator.errors import InputError
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.model.sweep_axes import AXES, BY_KEY, OLD_WORDS, Axes, SweepAxis
from web.api.run_form import RunForm, axes_answer

KEYS = [axis.key for axis in AXES]
TOPOLOGY = "name: x\nhub: here\nlanes: {there: {rtt: 32ms}}\n"


def file(folder: Path, sweep_section: str) -> Path:
    path = folder / "x.yaml"
    path.write_text(f"{TOPOLOGY}sweep: {sweep_section}\n")
    return path


def test_every_axis_is_everywhere() -> None:
    assert list(Axes.__struct_fields__) == [key for key in KEYS if key != "repeats"]
    assert [key for key in SweepForm.model_fields if key != "workload"] == KEYS
    assert [key for key in RunForm.model_fields if key not in ("workload", "in_lab", "name")] == KEYS
    assert [axis.key for axis in axes_answer().axes] == KEYS
    options = {param.name: param for param in sweep.params if isinstance(param, click.Option)}
    assert [options[key].opts for key in KEYS] == [[axis.option] for axis in AXES]


@pytest.mark.parametrize("axis", [axis for axis in AXES if axis.limits], ids=lambda axis: axis.key)
def test_a_limit_is_the_same_everywhere(axis: SweepAxis, tmp_path: Path) -> None:
    assert axis.limits
    _, most, written, whose = axis.limits
    large = written(most * 2)
    with pytest.raises(ValueError, match=whose):
        axis.check(most * 2)
    with pytest.raises(InputError, match=f"sweep.{axis.key}: .*{whose}"):
        loader.load_sweep(file(tmp_path, f"{{{axis.key}: '{large}'}}"))
    with pytest.raises(ValueError, match=whose):
        RunForm(**{axis.key: large})
    said = CliRunner().invoke(sweep, ["--rtt", "1", axis.option, large, "--dry-run"])
    assert isinstance(said.exception, InputError)
    assert whose in str(said.exception)
    assert next(one.most for one in axes_answer().axes if one.key == axis.key) == written(most)


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.key)
def test_each_example_is_a_value(axis: SweepAxis) -> None:
    values = [axis.read(text) for text in axis.examples]
    for value in values:
        axis.check(value)
    given = axis.examples[0] if axis.single else list(axis.examples)
    assert getattr(RunForm(**{axis.key: given}), axis.key) == (values[0] if axis.single else tuple(values))


def test_an_old_word_is_read_with_a_hint(tmp_path: Path) -> None:
    hints: list[str] = []
    given, lines = loader.load_sweep(file(tmp_path, "{profile: max}"), hints)
    assert (given, set(lines)) == ({"tcp_profile": ("max",)}, {"tcp_profile"})
    assert hints == [
        f"{tmp_path}/x.yaml:4: sweep.profile: 'profile' is now called 'tcp_profile'; "
        "the old word is read for this release only"
    ]
    assert OLD_WORDS.items() <= {"profile": "tcp_profile"}.items()
    assert set(OLD_WORDS.values()) <= BY_KEY.keys()


def test_both_words_at_once_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'profile' is the old word for 'tcp_profile': write tcp_profile alone"):
        loader.load_sweep(file(tmp_path, "{profile: max, tcp_profile: max}"))


def test_the_old_option_is_read_with_a_hint() -> None:
    run = CliRunner()
    new = run.invoke(sweep, ["--rtt", "32", "--tcp-profile", "max", "--dry-run"])
    old = run.invoke(sweep, ["--rtt", "32", "--profile", "max", "--dry-run"])
    assert (old.exit_code, old.stdout) == (0, new.stdout)
    assert old.stderr == "warning: --profile is now called --tcp-profile; the old name is read for this release only\n"
    both = run.invoke(sweep, ["--rtt", "32", "--profile", "max", "--tcp-profile", "max", "--dry-run"])
    assert both.exit_code == 2
    assert "--profile is the old name of --tcp-profile: give --tcp-profile alone" in both.stderr
    assert "--profile " not in run.invoke(sweep, ["--help"]).output


@pytest.mark.parametrize(
    ("axis", "values", "measured"),
    [
        ("window", ["256KiB", "1MiB"], lambda spec: spec.profile.name),
        ("initcwnd", ["10", "32"], lambda spec: spec.profile.initcwnd),
        ("direction", ["inbound", "both"], lambda spec: spec.direction),
        ("mtu", ["1400", "9000"], lambda spec: spec.lane.mtu),
        ("loss", ["0.01%", "1%"], lambda spec: units.format_probability(spec.lane.inbound.loss_p32)),
        (
            "rate",
            ["1Mbit", "2Mbit"],
            lambda spec: units.compact(units.format_rate(spec.lane.outbound.rate_bps)).removesuffix("/s"),
        ),
        ("cc", ["cubic", "reno"], lambda spec: spec.congestion_control),
        ("streams", [1, 8], lambda spec: spec.streams),
    ],
)
def test_a_run_by_the_api_measures_each_value_of_an_axis(
    tmp_path: Path, axis: str, values: list[Any], measured: Callable[[CellSpec], Any]
) -> None:
    seen: list[CellSpec] = []

    def runner(spec: CellSpec) -> Execution:
        seen.append(spec)
        return execution(spec)

    house = House(tmp_path, runner=runner)
    answer = house.client.post("/api/runs", json={"rtt": ["1ms"], axis: values, "repeats": 2, "duration": "1s"})
    assert (answer.status_code, answer.json["warnings"]) == (201, [])
    until(house, answer.json["id"], lambda run: run["state"] == "done")
    wanted = [f"window-{value}" for value in values] if axis == "window" else values
    assert sorted({str(measured(spec)) for spec in seen}) == sorted(map(str, wanted))
    assert sorted(spec.repeat for spec in seen) == [0, 0, 1, 1]


def test_old_words_of_a_request_are_read_with_a_warning(tmp_path: Path) -> None:
    house = House(tmp_path)
    old = {"rtts": ["1ms"], "profiles": ["max"], "congestion_controls": ["cubic"]}
    new = {"rtt": ["1ms"], "tcp_profile": ["max"], "cc": ["cubic"]}
    answers = [house.client.post("/api/runs?dry_run=1", json=body).json for body in (old, new)]
    assert answers[0]["cells"] == answers[1]["cells"]
    assert [len(answer["warnings"]) for answer in answers] == [3, 0]
    assert any("'rtts' is now called 'rtt'; the old word is read for this release" in t for t in answers[0]["warnings"])
    both = house.client.post("/api/runs?dry_run=1", json={"rtts": ["1ms"], "rtt": ["1ms"]})
    assert (both.status_code, both.json["mistakes"][0]["path"]) == (422, "rtts")


def test_too_many_combinations_are_refused_before_they_are_made(tmp_path: Path) -> None:
    many = {axis: [str(n) for n in range(1, 65)] for axis in ("streams", "initcwnd")}
    answer = House(tmp_path).client.post("/api/runs", json={"rtt": ["1ms"], **many})
    assert (answer.status_code, answer.json["mistakes"][0]["text"]) == (
        422,
        "4096 cells are too many: a run has at most 1000",
    )


def test_the_api_tells_the_axes_that_the_form_is_made_of(tmp_path: Path) -> None:
    found = House(tmp_path).client.get("/api/axes").json["axes"]
    assert [axis["key"] for axis in found] == KEYS
    assert next(axis for axis in found if axis["key"] == "window")["least"] == "4 KiB"


def test_each_default_is_said_where_it_holds(tmp_path: Path) -> None:
    """A command line measures default and max, up to ten times; a request measures default, once."""
    said = CliRunner().invoke(sweep, ["--rtt", "1", "--dry-run", "--json"])
    plan = json.loads(said.stdout)
    assert [cell["id"].split("-")[2] for cell in plan["cells"]] == ["default", "max"]
    asked = House(tmp_path).client.post("/api/runs?dry_run=1", json={"rtt": ["1ms"]}).json["cells"]
    assert [cell["column"].split(",")[0] for cell in asked] == ["default"]
    told = {axis.key: axis.default for axis in axes_answer().axes}
    profiles, repeats = BY_KEY["tcp_profile"], BY_KEY["repeats"]
    assert (profiles.default, told["tcp_profile"]) == (
        "default and max; none beside windows",
        "default; none beside windows",
    )
    assert (repeats.default, told["repeats"]) == (str(plan["most_repeats"]), str(RunForm(rtt="1ms").most_repeats))
    for form, default in ((SweepForm, profiles.default), (RunForm, told["tcp_profile"])):
        assert str(form.model_fields["tcp_profile"].description).endswith(f"; default: {default}")
