"""One rendering of the status: what the command line prints is what the API answers, here and from afar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.web_daemon import House

from emulator.cli import main
from emulator.config import loader
from emulator.control.schedule_lateness import Lateness
from emulator.control.status import Status
from emulator.control.status_document import document, from_document
from emulator.kernel.protocol import QueueCounters
from web.api.schemas import StatusAnswer

RICH = """\
name: rich
hub: h
defaults: {rate: 1Gbit}
lanes:
  a: {rtt: 8ms, jitter: 1ms, distribution: normal, loss: 1% burst 5, ecn: yes, aqm: red, cells: atm}
  b: {rtt: 9ms, disabled: true, inbound: {reorder: 1%, seed: 7}}
  c: {rtt: 9ms, flows: {f: {match: {dscp: ef}, rtt: 80ms, loss: 1%}}}
"""


@pytest.fixture
def rich(tmp_path: Path) -> House:
    """A daemon whose lanes have about everything."""
    house = House(tmp_path)
    house.appliance.up(loader.loads(RICH))
    house.kernel.counted = {"lhs-a": QueueCounters(9, 99, 48, 3, 4, 45)}
    return house


def test_the_command_line_prints_what_the_api_answers(rich: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", "--json"], obj=rich.appliance) == 0
    answer = rich.client.get("/api/status").json
    assert json.loads(capsys.readouterr().out) == answer
    assert list(answer["lanes"][2]["flows"]) == ["f"]


def test_it_is_of_the_shape_that_the_api_document_tells(rich: House) -> None:
    answer = rich.client.get("/api/status").json
    assert StatusAnswer.model_validate(answer).model_dump(by_alias=True) == answer


def reply(status: Status) -> object:
    """As another machine hears it."""
    return document(from_document(json.loads(json.dumps(document(status))), status.topology))


def test_another_machine_hears_the_same(rich: House) -> None:
    status = rich.appliance.status()
    assert reply(status) == document(status)
    late = Status(status.topology, [], status.lanes, {"a": "gone"}, lateness=Lateness(2, 1, 0, 9, 12))
    assert reply(late) == document(late)
