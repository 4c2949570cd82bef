"""bdp and advise on the command line, by the formulas and figures of the founding documents."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from emulator.cli import main

TITLES = (
    "path", "BDP", "line carries", "1 stream reaches", "in the first 10 s", "slow start takes", "socket buffers",
    "streams needed", "bottleneck buffer", "netem limit", "netem memory",
)  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main.main(list(args)) == 0
    return capsys.readouterr().out


def test_the_path_to_japan(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "bdp", "--rate", "10Gbit", "--rtt", "346ms")
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert tuple(lines) == TITLES
    assert lines["BDP"].strip() == "432.5 MB"
    assert lines["line carries"].strip() == "1140 MiB/s (9.564 Gbit/s)"
    # 4 MiB to send, two thirds in flight; 32 MiB so; 1023 MiB so: 1140.1 MiB/s x 0.346 s are 394.5 MiB.
    assert lines["streams needed"].strip() == "148 default, 19 founding, 1 max, by profile"


def test_the_published_window(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "bdp", "--rate", "1Gbit", "--rtt", "71", "--window", "256KiB", "--json"))
    assert found["predicted_bytes_per_s"] * 8 / 1e6 == pytest.approx(29.5, abs=0.1)
    assert found["streams_needed"] == {"default": 4, "founding": 1, "max": 1, "of 256 KiB": 33}
    assert found["first_10s_bytes_per_s"] < found["predicted_bytes_per_s"]


def test_advice_for_one_host_and_for_more_than_one_stream_can_carry(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "advise", "--rate", "100Gbit", "--rtt", "346", "--to", "10.77.0.2").splitlines()
    assert "ip route change $(ip route show match 10.77.0.2 | tail -n 1) initcwnd 45" in out
    # 1023 MiB, two thirds in flight, each 0.346 s.
    assert out[-2:] == [
        "# on both hosts: from 7.7 MiB/s (0.0647 Gbit/s) to 1971 MiB/s (16.535 Gbit/s), then send buffer",
        "# 6 streams of these windows fill the line",
    ]


@pytest.mark.parametrize(
    ("has", "gets"),
    [
        ("190000 250000 380000", "4194304 4194304 4194304"),
        ("4000000 9000000 12000000", "4194304 9000000 12000000"),
        ("9000000\t9000001\t12000000", "9000000 9000001 12000000"),
    ],
)
def test_tcp_mem_is_never_lowered(capsys: pytest.CaptureFixture[str], tmp_path: Path, has: str, gets: str) -> None:
    """The command as it is printed, run on a machine of which only sysctl is made up."""
    (command,) = [line for line in said(capsys, "advise", "--rtt", "80").splitlines() if "tcp_mem" in line]
    sysctl = tmp_path / "sysctl"
    sysctl.write_text(f'#!/bin/sh\n[ "$1" = -w ] && echo "$2" || echo "{has}"\n')
    sysctl.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", command],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"net.ipv4.tcp_mem={gets}\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--rtt", "1", "--rate", "0Gbit"), "'--rate': '0Gbit' is below one byte a second"),
        (("--rtt", "1", "--window", "0"), "'--window': a window of 0 lets no data through"),
        (("--rtt", "-5"), "'--rtt': '-5' is not a time: use 32ms or 1.5s"),
    ],
)
def test_impossible_paths(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], why: str) -> None:
    assert main.main(["bdp", *args]) == 2
    assert capsys.readouterr().err.strip().endswith(f"Error: Invalid value for {why}")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("30s", 30), ("1min", 60)])
def test_durations_have_units_or_are_seconds(capsys: pytest.CaptureFixture[str], text: str, seconds: int) -> None:
    args = ("sweep", "--rtt", "1", "--tcp-profile", "max", "--repeats", "1", "--duration", text, "--dry-run", "--json")
    assert json.loads(said(capsys, *args))["streams_s"] == seconds


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (
            ["sweep", "--rtt", "1", "--duration", "1.5s"],
            "'1.5s' is not a positive number of whole seconds: use 30s or 2min",
        ),
        (["rfc6349", "far", "--duration", "1"], "1 s is too short: use at least 2s"),
        (["lab", "run", "--timeout", "soon", "--", "true"], "'soon' is not a time: use 32ms"),
    ],
)
def test_durations_that_are_none(capsys: pytest.CaptureFixture[str], args: list[str], why: str) -> None:
    assert main.main(args) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rtt", "80", "--mtu", "9000", "--rate", "100bit"], "rate 100 bit/s is below"),
        (["--rtt", "1000000h", "--rate", "1Gbit"], "path: "),
    ],
)
def test_a_path_that_no_lane_can_have(capsys: pytest.CaptureFixture[str], options: list[str], told: str) -> None:
    assert main.main(["bdp", *options]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "Traceback" not in err
