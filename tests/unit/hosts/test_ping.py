"""The parser of ping's output, on captures of iputils 20240905 in the lab."""

from __future__ import annotations

import pytest
from support.folders import CAPTURES

from emulator.errors import MeasureError
from emulator.hosts.tools import ping

MS = 10**6


def test_the_first_echo_pays_for_arp_and_is_not_counted() -> None:
    text = (CAPTURES / "ping-precise-32ms.txt").read_text()
    assert "time=64.000 ms" in text
    assert ping.parse(text) == ping.Ping((32 * MS, 32 * MS, 32 * MS), 0)


def test_the_rounded_output_of_an_old_ping() -> None:
    assert ping.parse((CAPTURES / "ping-32ms.txt").read_text()) == ping.Ping((32 * MS,) * 3, 0)


def test_lost_echoes_are_counted() -> None:
    assert ping.parse((CAPTURES / "ping-lossy.txt").read_text()) == ping.Ping((32 * MS,) * 8, 2)


def test_every_decimal_counts() -> None:
    text = (CAPTURES / "ping-precise-32ms.txt").read_text().replace("32.000", "346.017")
    assert ping.parse(text).rtts_ns == (346_017_000,) * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ((CAPTURES / "ping-unreachable.txt").read_text(), "none of 3 echoes was answered"),
        (
            "ping: connect: Network is unreachable\n",
            "cannot parse the output of ping: ping: connect: Network is unreachable",
        ),
        ("", "cannot parse the output of ping: nothing"),
    ],
)
def test_no_answer_is_an_error(text: str, said: str) -> None:
    with pytest.raises(MeasureError) as error:
        ping.parse(text)
    assert str(error.value) == said


def test_argv_has_one_echo_more_than_counted() -> None:
    assert ping.argv("10.77.0.2", 10) == ["ping", "-n", "-3", "-i", "0.2", "-c", "11", "-W", "4", "10.77.0.2"]
    assert "-3" not in ping.argv("10.77.0.2", 10, precise=False)


def test_quantiles_are_by_nearest_rank() -> None:
    values = list(range(1, 101))
    assert [ping.quantile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert ping.quantile([7], 0.99) == 7
