"""Tables of programs, against golden files."""

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace
from support.folders import GOLDEN
from support.golden import golden
from support.made_programs import MIB, connection, row, run, runs, turns_row, window_row

from emulator.report import program_table
from emulator.report.program_table import ProgramRow


@pytest.fixture
def rows() -> list[ProgramRow]:
    """A chatty program at four RTTs, and a download in windows at three and two rates, of which one is impossible."""
    chat = [turns_row("redis, max", rtt, 17) for rtt in (0, 10, 80, 346)]
    load = [window_row("curl, default", rtt, 20, rate) for rtt in (80, 200, 346) for rate in (10**9, 10**10)]
    load[3] = row("curl, default", 200, runs(run(40, connection(100, 64 * MIB), retransmits=2)), 10**10)
    return [*chat, *load]


def test_csv(rows: list[ProgramRow]) -> None:
    text = program_table.csv_text(rows)
    assert text == golden(GOLDEN / "program_table.csv", text)
    read = list(csv.DictReader(io.StringIO(text)))
    assert [one["series"] for one in read] == ["redis, max"] * 4 + ["curl, default"] * 6
    for one in read[1:4]:
        assert float(one["law_round_trips"]) == pytest.approx(18, abs=1e-6)
        assert float(one["left_out_completion_s"]) == pytest.approx(float(one["completion_mean_s"]))
        parts = [int(value) for name, value in one.items() if name.startswith("in_")]
        assert sum(parts) == round(float(one["completion_mean_s"]) * 1e9)
    wrong = read[7]
    assert wrong["invalid"].startswith("run 1 took 40 ms; ")
    assert wrong["law_round_trips"] == wrong["left_out_completion_s"] == ""


def test_the_law_and_the_largest_advice_stand_below_each_table(rows: list[ProgramRow]) -> None:
    chat, load = program_table.series_of(rows)
    assert chat.lines == [
        "law: this program costs 18.000 ± 0.001 round trips and 4.957 ± 0.001 ms; without 346 ms in the fit: "
        "6.23 s there (measured 6.23 s); worst residual 0.0% at 0 ms",
        "largest saving, at 346 ms: more in flight: send requests before the last one's answer (pipelining), 8 at "
        "once: about 1.09 s instead of 6.23 s",
    ]
    assert load.law_text.startswith(
        "this program costs 22.000 ± 0.001 round trips and 0.000 ± 0.001 ms; its bytes take no"
    )
    assert load.advice.startswith("at 346 ms, 1 Gbit/s: tcp_rmem max of the client from 6 MiB to 55 MiB")


def test_an_invalid_cell_is_marked_and_no_part_of_the_law(rows: list[ProgramRow]) -> None:
    load = program_table.series_of(rows)[1]
    assert [time for time in (line[2] for line in program_table.table(load).rows) if time.startswith("✗")] == ["✗40 ms"]
    assert len(load.points) == 5


def test_the_rate_is_a_column_only_where_there_are_several(rows: list[ProgramRow]) -> None:
    chat, load = program_table.series_of(rows)
    assert "rate" not in program_table.table(chat).header
    assert program_table.table(load).header[:2] == ("RTT", "rate")


def test_an_overview_has_a_row_for_each_rtt_and_rate(rows: list[ProgramRow]) -> None:
    table = program_table.overview(program_table.series_of(rows))
    assert table.header == ("RTT", "redis, max", "curl, default")
    assert table.rows[0] == ("0 ms, 1 Gbit/s", "5.000 ± 0.001 ms", "-")
    assert table.rows[2] == ("80 ms, 1 Gbit/s", "1.445 ± 0.001 s", "1.76 s")
    assert [line[0] for line in table.rows].count("80 ms, 10 Gbit/s") == 1


def test_what_is_unknown_is_a_dash() -> None:
    plain = row("dig, default", 0, runs(run(3), quiet_ms=None))
    assert program_table.table(program_table.series_of([plain])[0]).rows == (
        ("0 ms", "3 ms", "-", "-", "-", "-", "-", "-", "-", "-", "the program itself"),
    )
    assert program_table.series_of([plain])[0].law_text.startswith("no law: only 0 ms has a valid cell")


def test_a_spreadsheet_has_no_figures_of_tcp_for_a_program_without_it() -> None:
    datagrams = replace(run(300), sent_bytes=9000, received_bytes=250_000)
    rows = [row("curl, default", 100, runs(datagrams, bytes=200_000)), turns_row("redis, default", 100, 2)]
    quic, tcp = csv.DictReader(io.StringIO(program_table.csv_text(rows)))
    of_tcp = {"connections", "payload_sent_bytes", "payload_received_bytes", "retransmits", "in_round_trips_ns"}
    of_tcp |= {"in_handshakes_ns", "in_receive_window_ns", "in_send_buffer_ns", "in_slow_start_ns", "in_loss_ns"}
    assert {name for name in tcp if tcp[name] and not quic[name]} >= of_tcp
    assert (quic["in_line_ns"], quic["in_unknown_ns"], quic["in_the_program_itself_ns"]) == (
        "2000000",
        "298000000",
        "0",
    )
    assert (quic["wire_received_bytes"], quic["kind"], quic["advice"]) == ("250000", "unknown", "")
    assert tcp["in_unknown_ns"] == "0"


def test_several_measurements_count_by_their_means() -> None:
    one = turns_row("redis, max", 80, 17)
    several = ProgramRow(one.series, one.rtt_ns, one.rate_bps, one.program, one.judgement, (1.4, 1.5, 1.6))
    assert several.mean_s == pytest.approx(1.5)
    assert several.point.completion_s == (1.4, 1.5, 1.6)
    assert program_table.time_text(several) == "1.5 ± 0.6 s"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (267, "267 B"), (12_600, "12.3 KiB"), (64 * MIB, "64 MiB"), (999_999, "977 KiB")]
)
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert program_table.size_text(size) == text
