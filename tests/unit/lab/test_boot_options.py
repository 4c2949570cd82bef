"""What a boot may be asked for: every mistake in one clear line, before anything is built or started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.errors import InputError
from emulator.lab import boot, boot_options

WRONG = {
    ("--mem", "8G root=/etc init=/bin/sh"): "'8G root=/etc init=/bin/sh' is not a size: use 8MiB",
    ("--mem", "16M"): "'16M' is not within 64 MiB and 128 GiB",
    ("--mem", "900T"): "'900T' is not within 64 MiB and 128 GiB",
    ("--mem", "1e400"): "'1e400' is not a size",
    ("--mem", "8X"): "'8X' has an unknown unit 'X'",
    ("--mem", "-8G"): "'-8G' is not a size",
    ("--mem", ""): "'' is not a size",
    ("--stall", "nan"): "'nan' is not a time: use 32ms or 1.5s",
    ("--stall", "-1"): "'-1' is not a time",
    ("--stall", "0"): "'0' is below 1 s",
    ("--stall", "inf"): "'inf' is not a time",
    ("--timeout", "0"): "'0' leaves the command no time",
    ("--timeout", "-1s"): "'-1s' is not a time",
    ("--start-date", "1969-12-31T23:59:59"): "'1969-12-31T23:59:59' is not within the years 1970 and 2199",
    ("--start-date", "9999-01-01"): "'9999-01-01' is not within the years 1970 and 2199",
    ("--start-date", "2262-04-11"): "'2262-04-11' is not within the years 1970 and 2199",
    ("--start-date", "tomorrow"): "'tomorrow' is no date: write 2001-09-09T01:46:40",
    ("--start-date", "1970-01-01T00:00+01:00"): "'1970-01-01T00:00+01:00' is not within the years",
    ("--start-date", "0001-01-01T00:00+23:00"): "'0001-01-01T00:00+23:00' is not within the years",
    ("--seed", "-1"): "'-1' is not a whole number within 0 and 18446744073709551615",
    ("--seed", str(2**64)): f"'{2**64}' is not a whole number within 0 and",
    ("--seed", "1" * 5000): "' is not a whole number within 0 and",
    ("--seed", "²"): "'²' is not a whole number",
}


@pytest.fixture
def nothing_boots(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What would have been started."""
    begun: list[object] = []
    monkeypatch.setattr(boot, "built", begun.append)
    return begun


@pytest.mark.parametrize(("option", "text"), WRONG)
def test_a_wrong_value_is_one_clear_line_before_anything_boots(
    option: str, text: str, nothing_boots: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", f"{option}={text}", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{option}: ")
    assert WRONG[option, text] in said
    assert (said.count("\n"), nothing_boots) == (1, [])


def test_everything_wrong_is_told_at_once(nothing_boots: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--mem=8X", "--seed=x", "--stall=nan", "--timeout=1x", "--start-date=x"]
    assert main(["lab", "run", *options, "--", "true"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["--mem", "--seed", "--timeout", "--start-date", "--stall"]
    assert (lines[-1], nothing_boots) == ("5 mistakes; nothing was changed", [])


@pytest.mark.parametrize(("option", "text"), [("--start-date", "2001-01-01"), ("--stall", "5")])
def test_an_option_of_the_virtual_clock_is_not_ignored_in_real_time(
    option: str, text: str, nothing_boots: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", "--real-time", option, text, "--", "true"]) == 2
    assert capsys.readouterr().err == f"{option}: it is for the virtual clock: omit --real-time\n"
    assert nothing_boots == []


@pytest.mark.parametrize("command", ["run", "shell"])
def test_a_folder_that_was_deleted_is_named(
    command: str, nothing_boots: list[object], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["lab", command, *(["--", "true"] if command == "run" else [])]) == 2
    assert capsys.readouterr().err == "the current folder: it does not exist any more: go to another\n"
    assert nothing_boots == []


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8G", 8 << 30), ("64M", 64 << 20), ("128GiB", 128 << 30), ("1GB", 954 << 20), (" 0.5GiB ", 512 << 20)],
)
def test_memory_is_counted_in_whole_mebibytes(text: str, size_bytes: int) -> None:
    assert boot_options.parse_memory_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "start_ns"),
    [
        ("2001-09-09T01:46:40", 10**18),
        ("2001-09-09T03:46:40+02:00", 10**18),
        ("1970-01-01", 0),
        ("2199-12-31T23:59:59.999999", 7258118399999999000),
    ],
)
def test_a_date_is_utc_unless_it_says_otherwise(text: str, start_ns: int) -> None:
    assert boot_options.parse_start_ns(text) == start_ns


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("90s", 90.0), ("10m", 600.0), ("10min", 600.0)])
def test_a_time_limit_may_be_bare_seconds(text: str, seconds: float) -> None:
    assert boot_options.parse_timeout_s(text) == seconds


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root with what matters of the lab's."""
    for name in ("usr/lib/python3", "proc", "tmp", "root", "home", "opt/longhaul/src"):
        (tmp_path / "image" / name).mkdir(parents=True)
    (tmp_path / "image/lib").symlink_to("usr/lib")
    (tmp_path / "image/usr/lib/os-release").touch()
    return tmp_path / "image"


@pytest.mark.parametrize(
    "folder", ["/", "/usr", "/usr/lib", "/lib", "/opt", "/opt/longhaul", "/proc/self", "/dev", "/run"]
)
def test_a_folder_that_would_hide_the_labs_own_files_is_refused(folder: str, image: Path) -> None:
    with pytest.raises(InputError) as error:
        boot_options.check(["true"], Path(folder), [image])
    assert str(error.value).startswith(
        f"{folder}: the lab cannot run here: the lab has files of its own in this folder"
    )


@pytest.mark.parametrize("folder", ["/tmp", "/srv/a b", "/srv/a,b\nc", "/usr/src/x", "/dev/shm/x", "/run/user/0", None])
def test_any_other_folder_is_taken(folder: str | None, image: Path) -> None:
    boot_options.check(["true"], Path(folder) if folder else None, [image])


def test_a_folder_with_an_endless_name_and_an_empty_command_are_told_at_once(image: Path) -> None:
    with pytest.raises(InputError) as error:
        boot_options.check([""], Path("/" + "x/" * 2000 + "y"), [image])
    assert error.value.mistakes[0].where == "COMMAND"
    assert "its name is longer than 4000 bytes" in str(error.value)


def test_a_name_in_another_encoding_is_measured_too(image: Path) -> None:
    boot_options.check(["true"], Path(os.fsdecode(b"/home/\xff")), [image])
