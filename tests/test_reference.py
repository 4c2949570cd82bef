"""The README's table of keys is whole, and every value that it shows can be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator import topologyfile
from emulator.topologyform import DirectionForm, LaneForm, MatchForm

README = (Path(__file__).parent.parent / "README.md").read_text()
ROWS = re.findall(
    r"^\| `([a-z_]+)`(?: \(in [^|]*\))? \| (`[^|]*`) \|",
    README.partition("| key | values")[2].partition("| match |")[0],
    re.MULTILINE,
)
SHOWN = [(key, value) for key, values in ROWS for value in re.findall(r"`([^`]+)`", values)]


def test_every_key_is_in_the_table() -> None:
    keys = (LaneForm.model_fields.keys() | DirectionForm.model_fields.keys()) - {
        "outbound",
        "inbound",
        "ports",
        "flows",
    }
    assert {key for key, _ in SHOWN} == keys


@pytest.mark.parametrize(("key", "value"), SHOWN, ids=lambda text: text.replace(" ", "_"))
def test_every_value_shown_is_read(key: str, value: str) -> None:
    base = {"rtt": "80ms", "rate": "1Gbit", "loss": "1%"}
    base |= {} if key in ("delay", "seed") else {key: value}
    base |= {"ports": "{hub: eth1, site: eth2}"} if key == "host" else {}
    if value == "none":
        base = {"rtt": "80ms", key: value}
    direction = f", outbound: {{{key}: {value}}}" if key in ("delay", "seed") else ""
    lane = ", ".join(f"{name}: {text}" for name, text in base.items()) + direction
    topology = topologyfile.loads(f"{{name: x, hub: h, lanes: {{there: {{{lane}}}}}}}")
    assert topologyfile.loads(topologyfile.dumps(topology)) == topology


MATCHES = [
    (key, value)
    for key, values in re.findall(r"^\| `([a-z_]+)` \| (`[^|]*`) \|", README.partition("| match |")[2], re.MULTILINE)
    for value in re.findall(r"`([^`]+)`", values)
]


def test_every_key_of_a_match_is_in_its_table() -> None:
    assert {key for key, _ in MATCHES} == MatchForm.model_fields.keys()


@pytest.mark.parametrize(("key", "value"), MATCHES)
def test_every_match_shown_is_read(key: str, value: str) -> None:
    lane = f"{{rtt: 8ms, flows: {{some: {{match: {{{key}: '{value}'}}, loss: 1%}}}}}}"
    topology = topologyfile.loads(f"{{name: x, hub: h, lanes: {{there: {lane}}}}}")
    assert topologyfile.loads(topologyfile.dumps(topology)) == topology


def test_every_topology_shown_is_read() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        topologyfile.loads(block)
