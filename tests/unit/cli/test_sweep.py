"""sweep, report, compare, runs, advise on the command line, with figures that are given instead of measured."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.folders import GOLDEN, ROOT
from support.golden import golden
from support.made_results import MIB, execution

from emulator.cli import main
from emulator.errors import MeasureError
from emulator.experiment import sweep_runner
from emulator.experiment.cell_captures import CellCaptures
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, Execution
from emulator.hosts.tools import machine_facts
from emulator.lab.lab_root import RootChoice

MISTAKES = sorted((GOLDEN / "sweeps").glob("*.args"))
RATE = "use a rate such as 10Gbit or 100Mbit"
HERE = " or ".join(", ".join(machine_facts.ALGORITHMS.read_text().split()).rsplit(", ", 1))
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def longhaul(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Said:
    """Runs a command line in an empty folder; every cell of a sweep measures 100 MiB/s unless `mib` says otherwise."""
    monkeypatch.chdir(tmp_path)
    # Drawing takes seconds; test_report_html draws.
    monkeypatch.setattr("emulator.report.figures.draw.draw", lambda *_: [])

    def run(*args: str, mib: float = 100) -> tuple[int, str, str]:
        def runner(*_: object) -> Callable[[CellSpec], Execution]:
            return lambda spec: execution(spec, mib * MIB)

        monkeypatch.setattr(sweep_runner, "in_lab", runner)
        code = main.main(list(args))
        return code, *capsys.readouterr()

    return run


def newest(folder: Path) -> Path:
    return sorted((folder / "runs").iterdir())[-1]


def test_a_dry_run_shows_the_cells_and_makes_nothing(longhaul: Said, tmp_path: Path) -> None:
    code, out, _ = longhaul(
        "sweep", "--in-lab", "--rtt", "0,32", "--tcp-profile", "default", "--rate", "1Gbit", "--dry-run"
    )
    assert code == 0
    assert out.splitlines() == [
        "cell                         RTT  runs for         steady      whole run  limited by",
        "lane-0ms-default-1-1Gbit    0 ms      10 s  114.0 (0.956)  114.0 (0.956)  line",
        "lane-32ms-default-1-1Gbit  32 ms      10 s   83.3 (0.699)   81.7 (0.685)  send buffer",
        "",
        "2 cells, each measured 3 to 10 times; MiB/s (Gbit/s); streams run for 60 s at least.",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("preset", "cells", "limits"),
    [
        ("founding-10g", 24, {"line", "send buffer", "slow start"}),
        ("transcontinental-1g", 4, {"receive window"}),
    ],
)
def test_presets_by_dry_run(longhaul: Said, preset: str, cells: int, limits: set[str]) -> None:
    _, out, _ = longhaul("sweep", str(ROOT / f"topologies/{preset}.yaml"), "--dry-run", "--json")
    found = json.loads(out)
    assert (len(found["cells"]), found["least_repeats"], found["most_repeats"]) == (cells, 3, 10)
    assert {cell["predicted_limit"] for cell in found["cells"]} == limits


@pytest.mark.parametrize(
    ("preset", "cells"),
    [("congestion-controls", 54), ("rtt-unfairness", 9), ("one-against-many", 10), ("bufferbloat", 24), ("hp-wan", 12)],
)
def test_presets_of_flows_by_dry_run(longhaul: Said, preset: str, cells: int) -> None:
    _, out, _ = longhaul("sweep", preset, "--in-lab", "--dry-run", "--json")
    assert len(json.loads(out)["cells"]) == cells


@pytest.mark.parametrize(
    ("options", "packages"),
    [
        (["--in-lab"], ("curl", "nginx")),
        (["--in-lab", "--with", "hello"], ("hello",)),
        (["--in-lab", "--host-root"], ()),
        ([], ()),
    ],
)
def test_a_lab_gets_the_packages_of_its_program_unless_an_option_names_a_root(
    longhaul: Said, options: list[str], packages: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.yaml").write_text(
        "{name: t, hub: here, lanes: {there: {rtt: 5ms}}, sweep: {workload: {client: 'true', packages: 'nginx, curl'}}}"
    )
    asked: list[Asked] = []
    monkeypatch.setattr("emulator.cli.sweep._show_plan", lambda one, _: asked.append(one))
    assert longhaul("sweep", "t.yaml", "--dry-run", *options)[0] == 0
    assert asked[0].root.packages == packages


def test_options_go_before_the_files_sweep_section(longhaul: Said, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "{name: t, hub: here, lanes: {there: {rtt: 5ms, rate: 1Gbit}},"
        " sweep: {profile: max, streams: [1, 8], duration: 4s, repeats: 2, direction: [outbound, inbound]}}"
    )
    _, out, _ = longhaul("sweep", "t.yaml", "--streams", "2", "--dry-run", "--json")
    found = json.loads(out)
    assert [cell["id"] for cell in found["cells"]] == ["there-5ms-max-2-1Gbit", "there-5ms-max-2-inbound-1Gbit"]
    assert (found["most_repeats"], found["streams_s"]) == (2, 16)


def test_a_sweep_leaves_a_whole_run_folder(longhaul: Said, tmp_path: Path) -> None:
    code, out, _ = longhaul("sweep", "--in-lab", "--rtt", "0,32", "--tcp-profile", "default", "--order-seed", "7")
    assert code == 0
    assert "tcp_wmem max from 4 MiB to 55 MiB" in out
    run = newest(tmp_path)
    assert {path.name for path in run.iterdir()} == {
        "run.json", "topology.yaml", "machine.json", "cells", "raw", "results.json", "table.md", "table.csv",
        "report.html", "figures",
    }  # fmt: skip
    assert json.loads((run / "run.json").read_text())["order_seed"] == 7
    assert len(list((run / "cells").iterdir())) == 6


def test_a_sweep_whose_only_cell_fails_shows_no_table_and_names_it_once(
    longhaul: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(spec: CellSpec) -> Execution:
        raise MeasureError(f"{spec.id}: the server was not ready (tcp:99) within 60 s")

    monkeypatch.setitem(globals(), "execution", lambda spec, _: failing(spec))
    code, out, _ = longhaul("sweep", "--in-lab", "--rtt", "32", "--tcp-profile", "default", "--rate", "1Gbit")
    assert code == 8
    first, last = out.splitlines()
    assert first == "lane-32ms-default-1-1Gbit failed: the server was not ready (tcp:99) within 60 s"
    assert last.startswith("results: runs/")


def test_what_is_there_is_not_measured_again(longhaul: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longhaul("sweep", "--in-lab", "--rtt", "0,32", "--tcp-profile", "default")
    run = newest(tmp_path)
    (run / "cells/lane-32ms-default-1.2.json").unlink()
    _, out, _ = longhaul("sweep", "--resume", str(run), "--json", mib=100.1)
    one, other = json.loads(out)["cells"]
    assert one["repeats"] == [100 * MIB] * 3
    assert other["repeats"] == [100 * MIB, 100 * MIB, 100.1 * MIB]


def test_a_resumed_run_refuses_what_it_would_ignore(longhaul: Said, tmp_path: Path) -> None:
    longhaul("sweep", "--in-lab", "--rtt", "0", "--tcp-profile", "default", "--repeats", "1")
    run = newest(tmp_path)
    (run / "cells/lane-0ms-default-1.0.json").unlink()
    resumed = ("sweep", "--in-lab", "--resume", str(run))
    code, _, err = longhaul(*resumed, "t.yaml", "--repeat", "5", "--rtt", "0", "--dry-run")
    assert (code, err.strip()) == (
        2,
        "[FILE], --rtt, --repeat, --dry-run: a resumed run measures what its folder says: leave them out, or start a "
        "new run without --resume",
    )
    assert list((run / "cells").iterdir()) == []
    assert longhaul(*resumed, "--json")[0] == 0


def test_a_regression_against_a_baseline_is_told_and_fails(longhaul: Said, tmp_path: Path) -> None:
    cells = ("sweep", "--in-lab", "--rtt", "32", "--tcp-profile", "default")
    longhaul(*cells)
    before = str(newest(tmp_path))
    assert longhaul(*cells, "--baseline", before)[0] == 0
    code, out, err = longhaul(*cells, "--baseline", before, mib=90)
    assert (code, "REGRESSION: lane-32ms-default-1: throughput -10.00 %" in err) == (8, True)
    assert "REGRESSION" in out
    code, out, _ = longhaul("compare", before, str(newest(tmp_path)), "--json")
    assert (code, json.loads(out)["changes"][0]["word"]) == (8, "REGRESSION")
    code, out, _ = longhaul("compare", before, before)
    assert (code, "same" in out) == (0, True)


def test_runs_are_listed_and_told_again(longhaul: Said, tmp_path: Path) -> None:
    assert longhaul("runs")[1] == "no runs in runs: longhaul sweep makes them\n"
    longhaul("sweep", "--in-lab", "--rtt", "32", "--tcp-profile", "default")
    run = newest(tmp_path)
    (listed,) = json.loads(longhaul("runs", "--json")[1])
    assert (listed["cells"], listed["measured"], listed["invalid"]) == (1, 1, 0)
    assert str(run.name) in longhaul("runs")[1]
    assert longhaul("report", str(run), "--format", "md")[1] == (run / "table.md").read_text()
    assert longhaul("report", str(run), "--format", "csv")[1] == (run / "table.csv").read_text()
    assert len(json.loads(longhaul("report", str(run), "--format", "json")[1])["cells"]) == 1
    assert longhaul("report", str(run))[1] == f"{run}/report.html: 1 of 1 cells, 0 figures\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["compare", "."], ".: is not a run folder: it has no run.json"),
        (["report", "."], ".: is not a run folder: it has no run.json"),
        (["sweep"], "sweep: there is nothing to measure: use a topology file, or RTTs such as --rtt 0,32,346"),
        (["sweep", "--rtt", "1", "--rate", "9"], "--rate: '9' has no unit: " + RATE),
        (["sweep", "--rtt", "1", "--cc", "none"], f"--cc: there is no congestion control 'none': use {HERE}"),
    ],
)  # fmt: skip
def test_mistakes(longhaul: Said, args: list[str], said: str) -> None:
    code, _, err = longhaul(*args)
    assert (code, err.strip().splitlines()[-1]) == (2, said)


@pytest.mark.parametrize("given", MISTAKES, ids=lambda path: path.stem)
def test_what_cannot_be_measured_is_refused_before_anything_starts(longhaul: Said, tmp_path: Path, given: Path) -> None:
    shutil.copytree(given.parent, tmp_path, dirs_exist_ok=True)
    code, out, err = longhaul("sweep", *shlex.split(given.read_text()))
    assert (code, out, err) == (2, "", golden(given.with_suffix(".txt"), err))
    assert not (tmp_path / "runs").exists()


def test_the_clock_that_counts_computing_is_the_labs_and_names_its_cells(longhaul: Said) -> None:
    plan = ("sweep", "--rtt", "32", "--tcp-profile", "default", "--clock", "counted", "--dry-run")
    assert longhaul(*plan)[2].splitlines()[0] == "--clock: it is for the lab: add --in-lab"
    code, out, _ = longhaul(*plan, "--in-lab", "--json")
    assert (code, [cell["id"] for cell in json.loads(out)["cells"]]) == (0, ["lane-32ms-default-1-CPUcounted"])


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("streams", "1", "128"), ("duration", "1s", "24h"), ("window", "4KiB", "682MiB"), ("initcwnd", "1", "65535"),
        ("mtu", "576", "65521"), ("repeats", "1", "30"),
    ],
)  # fmt: skip
def test_the_limits_themselves_are_allowed(longhaul: Said, key: str, least: str, most: str) -> None:
    for value in (least, most):
        code, _, err = longhaul("sweep", "--rtt", "32", "--tcp-profile", "max", f"--{key}", value, "--dry-run")
        assert (code, err) == (0, "")


def test_advise_prints_commands(longhaul: Said) -> None:
    _, out, _ = longhaul("advise", "--rate", "1Gbit", "--rtt", "71ms")
    assert (
        out.splitlines()[-1]
        == "# on both hosts: from 37.6 MiB/s (0.315 Gbit/s) to 114.0 MiB/s (0.956 Gbit/s), then line"
    )
    _, out, _ = longhaul("advise", "--rtt", "71", "--json")
    assert all(command.startswith(("sysctl -w net.ipv4.", "ip ")) for command in json.loads(out)["commands"])


def test_the_sweep_section_is_read_in_the_models_units(tmp_path: Path) -> None:
    from emulator.config import loader

    file = tmp_path / "t.yaml"
    file.write_text(
        "{name: t, hub: h, lanes: {a: {}}, sweep: {rtt: 2ms, rate: [1Gbit, 10Gbit], loss: 1%, window: 1MiB}}"
    )
    found, lines = loader.load_sweep(file)
    assert set(lines.values()) == {f"{file}:1"}
    assert found == {"rtt": (2_000_000,), "rate": (10**9, 10**10), "loss": (42949673,), "window": (MIB,)}


def test_a_cluster_cannot_write_captures(longhaul: Said, tmp_path: Path) -> None:
    cell = ("--rtt", "0", "--tcp-profile", "default", "--repeats", "1")
    refusal = "a cluster cannot write captures (--pcap) into the run folder; use --in-lab without --scheduler"
    code, _, err = longhaul("sweep", *cell, "--pcap", "--scheduler", "local")
    assert (code, err.strip()) == (2, f"--scheduler: local: {refusal}")
    assert list(tmp_path.iterdir()) == []
    assert longhaul("sweep", "--in-lab", *cell, "--pcap")[0] == 0
    code, _, err = longhaul("sweep", "--resume", str(newest(tmp_path)), "--scheduler", "local")
    assert (code, err.strip()) == (2, f"--scheduler: local: {refusal}")


def test_a_resumed_run_captures_as_the_first_part_did(
    longhaul: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longhaul(
        "sweep",
        "--in-lab",
        "--rtt",
        "0,8",
        "--tcp-profile",
        "default",
        "--repeats",
        "1",
        "--pcap",
        "--snap",
        "64",
        "--kernel-config",
        "standard",
    )
    run = newest(tmp_path)
    sorted((run / "cells").iterdir())[0].unlink()
    seen: list[object] = []

    def runner(_: object, captures: object, choice: RootChoice) -> Callable[[CellSpec], Execution]:
        seen.extend((captures, choice))
        return execution

    monkeypatch.setattr(sweep_runner, "in_lab", runner)
    assert main.main(["sweep", "--resume", str(run)]) == 0
    assert seen == [CellCaptures(run.resolve(), 64), RootChoice(kernel_config="standard")]


def test_the_lab_writes_captures_below_the_current_folder_only(longhaul: Said) -> None:
    code, _, err = longhaul("lab", "run", "--pcap", "/tmp", "--", "true")
    assert (code, "'/tmp' is outside the current folder, where the lab cannot write" in err) == (2, True)
