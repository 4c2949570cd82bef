"""A key of the table of impairments has an effect: whoever adds one must lower it."""

from __future__ import annotations

import pytest
from support.lowered_keys import ignored, texts

from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS, Key, key_of, named


def test_every_key_changes_what_the_kernel_is_told() -> None:
    assert ignored() == []


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_what_a_key_reads_it_writes_again(key: Key) -> None:
    for text in texts(key):
        fields = key.read(text)
        assert fields != key.rest
        assert key.read(str(key.write(fields))) == fields
    if key.at_rest is not None:
        assert key.read(str(key.at_rest)) == key.rest


def test_every_field_belongs_to_one_key() -> None:
    fields = [name for key in KEYS for name in key.fields]
    assert sorted(fields) == sorted(Impairment.__dataclass_fields__)
    assert key_of("ber_e15") is named("corrupt")
    with pytest.raises(KeyError):
        named("queue")
