"""JSON bodies: what other readers take in silence is a mistake with its path."""

from __future__ import annotations

import pytest

from emulator.config import json_text
from emulator.errors import InputError


def test_a_value_is_what_any_reader_makes_of_it() -> None:
    text = '{"rtt": "40ms", "flows": {"a": {"match": {"port": 1}}, "b": null}, "n": [1, 2.5, true, {}]}'
    assert json_text.read(text.encode(), "request") == {
        "rtt": "40ms", "flows": {"a": {"match": {"port": 1}}, "b": None}, "n": [1, 2.5, True, {}],
    }  # fmt: skip


def test_every_key_that_is_given_twice_is_told() -> None:
    text = b'{"rtt": "1ms", "rtt": "2ms", "flows": [{"a": {"loss": 1, "loss": 1}}], "rtt": "1ms"}'
    with pytest.raises(InputError) as told:
        json_text.read(text, "request")
    assert [(one.where, one.path, one.text) for one in told.value.mistakes] == [
        ("request", "rtt", "given twice"), ("request", "flows.0.a.loss", "given twice"),
        ("request", "rtt", "given twice"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a": 1e400}', "1e400 is too large a number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\xff"}', "not a text in UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not a text in UTF-8"),
        ('{"a": 1}'.encode("utf-8-sig"), "not JSON"),
        (b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}", "nested far too deep"),
        (b"[" * 100_000 + b"]" * 100_000, "nested far too deep"),
        (b'{"a": 1} {"a": 2}', "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        json_text.read(text, "request")
