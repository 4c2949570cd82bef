"""sweep --baseline and --write-baseline on the command line, with figures that are given instead of measured."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.folders import GOLDEN
from support.golden import golden
from support.made_results import MIB, changed, execution

from emulator.cli import main
from emulator.errors import MeasureError
from emulator.experiment import sweep_runner
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.report import job_summary

SWEEP = ("sweep", "--in-lab", "--tcp-profile", "default", "--repeats", "1", "--rtt")
CELL = "lane-32ms-default-1"
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def swept(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Said:
    """Runs a sweep of these RTTs in an empty folder, where every cell measures `mib` MiB/s and `spoilt` is invalid."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emulator.report.figures.draw.draw", lambda *_: [])

    def run(rtts: str, *args: str, mib: float = 100, spoilt: str = "", fails: str = "") -> tuple[int, str, str]:
        def measure(spec: CellSpec) -> Execution:
            if spec.id == fails:
                raise MeasureError("iperf3 ended")
            done = execution(spec, mib * MIB)
            reasons = ("12 packets dropped by the emulator's limit",) if spec.id == spoilt else ()
            return Execution(changed(done.result, invalid=reasons), done.raw)

        monkeypatch.setattr(sweep_runner, "in_lab", lambda *_: measure)
        code = main.main([*SWEEP, rtts, *args])
        return code, *capsys.readouterr()

    return run


def test_a_baseline_is_written_once_and_renewed_with_consent(swept: Said) -> None:
    file = Path("b.yaml")
    code, _, err = swept("32,80", "--write-baseline", "b.yaml")
    assert (code, err.splitlines()[-1]) == (0, "baseline: b.yaml")
    first = file.read_text()
    assert first.splitlines()[-2:] == [
        "  lane-32ms-default-1: {throughput: 838.861Mbit}",
        "  lane-80ms-default-1: {throughput: 838.861Mbit}",
    ]
    refused = swept("32,80", "--write-baseline", "b.yaml", mib=90)
    assert refused == (2, "", "--write-baseline: b.yaml: exists already; overwrite it with --force\n")
    assert (file.read_text(), len(list(Path("runs").iterdir()))) == (first, 1)
    assert swept("32,80", "--write-baseline", "b.yaml", "--force")[0] == 0
    assert file.read_text() == first
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("mib", "tolerance", "code", "word"),
    [
        (100, "1%", 0, "same"),
        (99.5, "1%", 0, "same"),
        (99, "1%", 8, "REGRESSION"),
        (99, "1.1%", 0, "same"),
        (101, "1%", 0, "faster"),
    ],
)
def test_one_percent_slower_fails(swept: Said, mib: float, tolerance: str, code: int, word: str) -> None:
    swept("32", "--write-baseline", "b.yaml")
    against = ("32", "--baseline", "b.yaml", "--tolerance", tolerance)
    found, out, err = swept(*against, mib=mib)
    assert (found, f"  {word}\n" in out) == (code, True)
    assert ("renew the baseline with --write-baseline FILE --force" in out) is (word == "faster")
    assert err.splitlines()[-1].startswith("gate failed: 1 of 1 cells" if code else "gate passed: 1 cells")
    found, out, _ = swept(*against, "--json", mib=mib)
    gate = json.loads(out)["baseline"]
    assert (found, gate["passed"], gate["cells"][0]["verdict"]) == (code, not code, word)


def test_cells_that_are_absent_new_invalid_or_failed(swept: Said) -> None:
    swept("20,32,80,90", "--write-baseline", "b.yaml")
    lane = "lane-{}ms-default-1".format
    code, out, err = swept("20,32,80,95", "--baseline", "b.yaml", mib=98.7, spoilt=lane(32), fails=lane(80))
    assert code == 8
    told = "\n".join((out[out.index("against the baseline") :], err[err.index("REGRESSION") :]))
    assert told == golden(GOLDEN / "gate.txt", told)


def test_a_resumed_run_writes_a_baseline_and_is_compared(swept: Said, capsys: pytest.CaptureFixture[str]) -> None:
    swept("32")
    (run,) = Path("runs").iterdir()
    assert main.main(["sweep", "--resume", str(run), "--write-baseline", "b.yaml"]) == 0
    assert main.main(["sweep", "--resume", str(run), "--baseline", "b.yaml", "--tolerance", "0.1%"]) == 0
    assert "+0.00 %  same" in capsys.readouterr().out


def test_an_invalid_cell_makes_no_baseline(swept: Said) -> None:
    code, _, err = swept("32", "--write-baseline", "b.yaml", spoilt=CELL)
    assert (code, err.splitlines()[-1]) == (8, "b.yaml is not written: every cell of a baseline must be valid")
    assert not Path("b.yaml").exists()


@pytest.mark.parametrize(("mib", "code", "tag"), [(100, 0, "system-out"), (99, 8, "failure")])
def test_junit_against_a_baseline(swept: Said, mib: float, code: int, tag: str) -> None:
    swept("32", "--write-baseline", "b.yaml")
    assert swept("32", "--baseline", "b.yaml", "--junit", "sweep.xml", mib=mib)[0] == code
    (case,) = ElementTree.parse("sweep.xml").iter("testcase")
    assert (case.get("name"), case.get("time"), case[0].tag) == (CELL, "10.000", tag)


def test_junit_without_a_baseline(swept: Said) -> None:
    Path("sweep.xml").write_text("an older one")
    assert swept("20,32,80", "--junit", "sweep.xml", spoilt=CELL, fails="lane-80ms-default-1")[0] == 8
    cases = ElementTree.parse("sweep.xml").iter("testcase")
    assert [case[0].tag for case in cases] == ["system-out", "error", "error"]


def test_the_summary_of_a_job_is_appended_to(swept: Said) -> None:
    summary = Path("summary.md")
    swept("32", "--write-baseline", "b.yaml")
    summary.write_text("a step before")
    assert swept("32", "--baseline", "b.yaml", "--markdown", "summary.md", mib=99)[0] == 8
    failed = summary.read_text()
    assert failed.startswith(
        "a step before\n\n## Throughput against RTT\n\n**gate failed: 1 of 1 cells (tolerance 1 %)**\n"
    )
    assert "<code>longhaul sweep ... --write-baseline b.yaml --force</code>" in failed
    assert swept("32", "--baseline", "b.yaml", "--markdown", "summary.md")[0] == 0
    both = summary.read_text()
    assert both.startswith(failed)
    assert both.count("**gate ") == 2
    assert "gate passed: 1 cells" in both


def test_no_summary_is_longer_than_a_job_may_have(swept: Said) -> None:
    Path("summary.md").write_text("x" * (job_summary.MOST_BYTES - 500))
    assert swept("32,80", "--markdown", "summary.md")[0] == 0
    assert Path("summary.md").stat().st_size <= job_summary.MOST_BYTES
    assert "The rest has no room" in Path("summary.md").read_text()


def test_a_summary_that_cannot_be_written(swept: Said) -> None:
    code, _, err = swept("32", "--markdown", "/dev/full")
    assert (code, err.splitlines()[-1]) == (
        4,
        "cannot write /dev/full: No space left on device; make room there, then try again",
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ("--baseline", "no.yaml"),
            "--baseline: no.yaml: does not exist; write it from a sweep that is as it should be: "
            "longhaul sweep ... --write-baseline no.yaml",
        ),
        (
            (
                "--baseline",
                "b.yaml",
                "--write-baseline",
                "no/c.yaml",
                "--force",
                "--junit",
                "no/d.xml",
                "--markdown",
                "no/e",
            ),
            "--write-baseline: a sweep writes a baseline or is compared with one: use one of the two\n"
            "--write-baseline: no/c.yaml: its folder does not exist: make it first\n"
            "--junit: no/d.xml: its folder does not exist: make it first\n"
            "--markdown: no/e: its folder does not exist: make it first\n"
            "4 mistakes; nothing was changed",
        ),
        (("--force",), "--force: it overwrites a baseline: add --write-baseline FILE"),
        (
            ("--baseline", "b.yaml", "--mtu", "9000"),
            "--baseline: b.yaml: this baseline has no cell in common with the sweep",
        ),
    ],
)
def test_what_would_fail_later_is_refused_before_anything_is_measured(
    swept: Said, args: tuple[str, ...], told: str
) -> None:
    swept("32", "--write-baseline", "b.yaml")
    assert swept("32", *args) == (2, "", f"{told}\n")
    assert len(list(Path("runs").iterdir())) == 1


def test_a_run_with_a_void_cell_is_no_baseline(swept: Said) -> None:
    swept("32,80", spoilt=CELL)
    (run,) = Path("runs").iterdir()
    code, _, err = swept("32,80", "--baseline", str(run))
    assert (code, err) == (
        2,
        f"--baseline: {run}: every cell of a baseline must be valid: {CELL} of this run are not\n",
    )
    assert swept("80", "--baseline", str(run))[0] == 0, "only the cells that are compared matter"


def test_what_cannot_be_printed_is_written_all_the_same(swept: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("emulator.cli.sweep._emit_tables", full)
    files = [Path("j.xml"), Path("m.md"), Path("b.yaml")]
    code, _, err = swept("32", "--junit", "j.xml", "--markdown", "m.md", "--write-baseline", "b.yaml")
    assert code != 0
    assert "No space left on device" in err
    assert [file.exists() for file in files] == [True, True, True]


def test_a_report_that_cannot_be_written_keeps_none_of_the_others(swept: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def goes(_: object) -> str:
        Path("gone").rmdir()
        return "<testsuites/>"

    Path("gone").mkdir()
    monkeypatch.setattr("emulator.report.junit.text", goes)
    code, out, _ = swept("32", "--junit", "gone/j.xml", "--markdown", "m.md", "--write-baseline", "b.yaml")
    assert code == 4
    assert [Path(name).exists() for name in ("gone", "m.md", "b.yaml")] == [False, True, True]
    assert "32 ms" in out


def test_a_folder_that_takes_no_file_is_told_before_anything_is_measured(swept: Said) -> None:
    code, _, err = swept("32", "--junit", "/proc/j.xml")
    assert (code, Path("runs").exists()) == (2, False)
    assert err == "--junit: /proc/j.xml: its folder takes no file: No such file or directory\n"
