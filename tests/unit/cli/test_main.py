"""The command line without a kernel: help, usage, exit codes, failures as text and as JSON."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from support.folders import ROOT

from emulator import errors
from emulator.cli import main

PASS_THROUGH = ("lab run", "lab shell")
"""Their output is that of the command inside."""

FIVE = ROOT / "tests/golden/errors/five-at-once.yaml"


class Failing:
    """Stands where the appliance would, and fails in one given way whatever it is asked."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getattr__(self, name: str) -> object:
        def fail(*_: object) -> object:
            raise self.error

        return fail


@pytest.mark.parametrize("name", list(main.LazyGroup.commands_at))
def test_every_command_has_help_with_an_example_and_json(name: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    leaves = (
        {f"{name} {leaf}": one for leaf, one in command.commands.items()}
        if isinstance(command, click.Group)
        else {name: command}
    )
    for path, leaf in leaves.items():
        help_text = CliRunner().invoke(leaf, ["--help"]).output
        assert f"longhaul {path}" in help_text, f"{path} shows no example"
        assert ("--json" in help_text) == (path not in PASS_THROUGH), path


def test_help_lists_the_commands_without_importing_them() -> None:
    result = CliRunner().invoke(main.cli, ["--help"])
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.output.partition("Commands:\n")[2].splitlines()]
    assert listed == list(main.LazyGroup.commands_at)


def test_mistakes_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["up", str(FIVE)]) == 2
    out, err = capsys.readouterr()
    golden = FIVE.with_suffix(".txt").read_text().replace("topologies/x.yaml", str(FIVE))
    assert (out, err) == ("", golden + "5 mistakes; nothing was changed\n")


def test_mistakes_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plan", "--json", str(FIVE)]) == 2
    out, err = capsys.readouterr()
    problem = json.loads(err)
    assert out == ""
    assert (problem["kind"], problem["exit_code"]) == ("InputError", 2)
    assert problem["mistakes"][1] == {
        "where": f"{FIVE}:5",
        "path": "lanes.california.rtt",
        "text": "'32' has no unit: write 32ms for milliseconds",
    }


def test_a_bad_option_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["set", "japan", "--loss", "1", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["mistakes"] == [
        {"where": "--loss", "path": "", "text": "'1' has no unit: write 1% for percent, or a fraction below 1"}
    ]


def test_json_behind_two_dashes_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", "--", "--json"]) == 2
    assert capsys.readouterr().err.startswith("Usage: longhaul status")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["frobnicate"], "No such command 'frobnicate'."),
        (["set", "japan"], "there is nothing to change: use an option such as --rtt 40ms"),
        (
            ["set", "japan", "--off", "--rtt", "1ms"],
            "--on, --off and --delete exclude all other settings: use one of them alone",
        ),
        (
            ["set", "japan", "--rtt", "40"],
            "Invalid value for '--rtt': '40' has no unit: write 40ms for milliseconds",
        ),
        (["up"], "Missing argument 'FILE'."),
    ],
)
def test_usage_errors(args: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(args, obj=Failing(AssertionError("asked nothing"))) == 2
    assert capsys.readouterr().err.endswith(f"Error: {text}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RefusedError("eth0 carries the default route"), 3),
        (errors.MissingError("run it in the lab: longhaul lab run -- longhaul status"), 4),
        (errors.KernelError("ip link add x", 17, "File exists"), 5),
        (errors.VerifyError("port lhs-japan: limit 1 instead of 2"), 6),
        (errors.MeasureError("ping failed"), 7),
        (errors.LabTimeout("too long"), 124),
        (errors.LabStalled("busy"), 125),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status"], obj=Failing(error)) == code
    assert capsys.readouterr().err.strip() == str(error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "", "/state/x"), "cannot write /state/x: No space left on device; make room there"),
        (OSError(errno.EACCES, "", "/state/x"), "cannot write /state/x: Permission denied; run as root, or use a"),
        (OSError(errno.EMFILE, ""), "Too many open files; end other programs, or raise the limits of this user"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/x"), "cannot use /x: File name too long"),
    ],
)
def test_what_the_machine_refuses_is_one_line(error: OSError, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status"], obj=Failing(error)) == 4
    shown = capsys.readouterr().err
    assert told in shown
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError(errno.EBADF, "Bad file descriptor")])
def test_any_other_exception_is_a_bug_and_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        main.main(["status"], obj=Failing(error))


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["schema"]) == 0
    plain = capsys.readouterr().out
    assert main.main(["schema", "--json"]) == 0
    assert capsys.readouterr().out == plain
    assert json.loads(plain)["properties"]["lanes"]["propertyNames"] == {
        "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_those_of_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_LONGHAUL_COMPLETE={shell}_complete" in script
    assert main.main(["completion", shell, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["shell"], answer["script"].strip()) == (shell, script.strip())


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    code = "import sys; from emulator.cli.main import main; sys.exit(main(['schema']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("args", "where"),
    [
        (["verify", "--output", "none/c.json"], "--output: none/c.json"),
        (["star", "--hub", "new-york", "--sites", "london", "--output", "none/c.yaml"], "none/c.yaml"),
        (["init", "none/c.yaml"], "none/c.yaml"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    args: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(args, obj=Failing(AssertionError("asked nothing"))) == 2
    assert capsys.readouterr().err == f"{where}: its folder does not exist: make it first\n"


@pytest.mark.parametrize("option", ["--output=c.json", "--tolerance=1ms"])
def test_impairments_have_no_certificate_of_rtts(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["verify", "--impairments", option]
    assert main.main(args, obj=Failing(AssertionError("asked nothing"))) == 2
    assert "without --impairments" in capsys.readouterr().err
