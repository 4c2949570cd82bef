"""Requests on the command line and in a topology file: the cells they make, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.cli.main import main

FILE = """
name: users
hub: hub
lanes: {lane: {rtt: 80ms, rate: 1Gbit}}
sweep:
  tcp_profile: default
  workload:
"""


def cells(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main(["sweep", "--in-lab", "--dry-run", "--json", *args]) == 0
    return [cell["id"] for cell in json.loads(capsys.readouterr().out)["cells"]]


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["sweep", "--in-lab", "--dry-run", *args]) == 2
    return capsys.readouterr().err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def test_options_make_all_combinations(capsys: pytest.CaptureFixture[str]) -> None:
    grid = ["--rtt", "20,80", "--tcp-profile", "default", "--connections", "1,8", "--answer", "1KiB,1MiB"]
    assert cells(capsys, *grid) == [
        f"lane-{rtt}ms-default-c{users}-k1-256B-{size}"
        for rtt in (20, 80) for users in (1, 8) for size in ("1KiB", "1MiB")
    ]  # fmt: skip


def test_a_file_makes_them_too_and_options_go_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"{FILE}    requests: {{connections: [1, 8], in_flight: 4, think: 1s, count: 50}}\n")
    assert cells(capsys, str(file)) == [
        f"lane-80ms-default-c{users}-k4-256B-1KiB-think1s-1Gbit" for users in (1, 8)
    ]  # fmt: skip
    assert cells(capsys, str(file), "--connections", "2") == ["lane-80ms-default-c2-k4-256B-1KiB-think1s-1Gbit"]


def test_no_settings_at_all_are_the_defaults(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"{FILE}    requests: {{}}\n")
    assert cells(capsys, str(file)) == ["lane-80ms-default-c1-k1-256B-1KiB-1Gbit"]


def test_the_plan_tells_the_ceilings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--in-lab", "--dry-run", "--rtt", "80", "--rate", "1Gbit", "--tcp-profile", "default",
                 "--connections", "8", "--answer", "1MiB", "--repeats", "1"]) == 0  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "cell                                       RTT  runs for  round trips allow  the line allows",
        "lane-80ms-default-c8-k1-256B-1MiB-1Gbit  80 ms      10 s              100/s            114/s",
        "",
        "1 cell, each measured once; requests are sent for 10 s, or until their count is reached.",
    ]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("requests: {connections: 0}", "users.yaml:8: sweep.workload.requests.connections: 0 is not within 1..4096"),
        ("requests: {answer: big}", "users.yaml:8: sweep.workload.requests.answer: 'big'"),
        ("requests: {offered: none}", "'none' is not a number of requests a second"),
        ("requests: {users: 3}", "sweep.workload.requests.users: unknown key; the keys are connections, in_flight"),
        ("requests: {think: 1s, offered: 5}", "users.yaml:8: sweep.workload.requests: with an offered rate nobody"),
        ("{requests: {}, client: ls}", "beside requests there is a program (client): use one of them"),
    ],
)
def test_mistakes_in_a_file_name_their_line(
    file: Path, capsys: pytest.CaptureFixture[str], section: str, text: str
) -> None:
    file.write_text(f"{FILE}    {section}\n")
    assert text in refused(capsys, str(file))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--connections", "5000"], "--connections: 5000 is not within 1..4096"),
        (["--think", "1s", "--offered", "5"], "with an offered rate nobody thinks"),
        (["--connections", "2", "--streams", "4"], "requests have connections instead of streams"),
        (["--connections", "2", "--direction", "both"], "requests have one client"),
        (["--connections", "2", "--client", "ls"], "a cell runs a program or requests: use one of them"),
        (["--connections", ",".join(["1"] * 65)], "65 values are too many"),
    ],
)
def test_mistakes_in_options(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    assert text in refused(capsys, "--rtt", "80", "--tcp-profile", "default", *args)


def test_a_cell_lasts_ten_requests_of_every_user(capsys: pytest.CaptureFixture[str]) -> None:
    def durations(*args: str) -> list[int]:
        shared = ["--in-lab", "--dry-run", "--json", "--rtt", "80", "--tcp-profile", "default", "--rate", "1Gbit"]
        assert main(["sweep", *shared, *args]) == 0
        return [cell["duration_s"] for cell in json.loads(capsys.readouterr().out)["cells"]]

    assert durations("--think", "0ms,30s") == [10, 301]
    assert durations("--offered", "0.5,100", "--in-flight", "4") == [80, 10]
    assert durations("--think", "30s", "--duration", "20s") == [20]
