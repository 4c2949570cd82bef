"""The reader of rtnetlink's messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.kernel import link_messages
from emulator.kernel.qdisc_counters import Counted, counters_of, decoded
from emulator.kernel.route_messages import links_of
from emulator.kernel.rtnl_socket import AT_ONCE, HEADER, RtnlSocket, attribute, attributes, listed, messages

contents = st.lists(st.tuples(st.integers(1, 0x3FFF), st.binary(max_size=64)), max_size=12)


@given(contents)
def test_what_is_encoded_is_read_back(given: list[tuple[int, bytes]]) -> None:
    encoded = b"".join(attribute(kind, content) for kind, content in given)
    assert list(listed(encoded)) == given
    assert attributes(encoded) == dict(given)


@given(st.binary(max_size=256))
def test_whatever_comes_the_reader_ends(datagram: bytes) -> None:
    assert len(list(messages(datagram))) * HEADER.size <= len(datagram)
    assert len(list(listed(datagram))) * 4 <= len(datagram)


def test_a_nested_attribute_has_the_type_without_its_flags() -> None:
    assert attributes(attribute(0x8000 | 7, b"x")) == {7: b"x"}


def test_every_query_has_its_own_answer_however_many_are_asked_and_refused() -> None:
    """Of this machine's kernel, in the order in which they were asked."""
    with RtnlSocket() as rtnl:
        wanted = ["lo", 1, "no-such-port", 1 << 30, "lo"] * (AT_ONCE + 1)
        found = [link and link.name for link in link_messages.some_links(rtnl, wanted)]
        assert found == ["lo", "lo", None, None, "lo"] * (AT_ONCE + 1)
        assert link_messages.some_links(rtnl, []) == []
        assert link_messages.link(rtnl, "no-such-port") is None


@pytest.mark.parametrize(("alias", "read"), [("Büro".encode(), "Büro"), ("Büro".encode("latin-1"), "B\\xfcro")])
def test_an_alias_in_any_encoding_is_read(alias: bytes, read: str) -> None:
    """Somebody else's alias is of any bytes (`ip link set eth7 alias ...` on a machine without UTF-8)."""
    body = struct.pack("=BxHiII", 0, 1, 7, 1, 0) + attribute(3, b"eth7\0") + attribute(20, alias + b"\0")
    link = link_messages.decode_link(body)
    assert (link.name, link.alias) == ("eth7", read)


def qdisc(kind: str, packets: int, *, packets64: int | None = None) -> bytes:
    """A qdisc's message, as the kernel sends it."""
    stats = attribute(1, struct.pack("=QI", 1000, packets & 0xFFFFFFFF))
    stats += attribute(3, struct.pack("=IIIII", 3, 4000, 5, 0, 0))
    if packets64 is not None:
        stats += attribute(8, struct.pack("=Q", packets64))
    body = attribute(1, kind.encode() + b"\0") + attribute(2, struct.pack("=i", 4)) + attribute(7, stats)
    return struct.pack("=BxxxiIII", 0, 9, 0x10000, 0xFFFFFFFF, 0) + body


def test_more_packets_than_32_bits_count_are_counted() -> None:
    many = (1 << 32) + 17
    assert decoded(qdisc("netem", many)).packets == 17
    assert decoded(qdisc("netem", many, packets64=many)).packets == many


def test_a_qdisc_is_read() -> None:
    assert decoded(qdisc("netem", 8)) == Counted(9, 0x10000, 0xFFFFFFFF, "netem", 0, 8, 1000, 3, 4000, 5)
    assert decoded(qdisc("prio", 8)).bands == 4


def test_an_interface_without_netem_has_no_counters() -> None:
    assert counters_of([decoded(qdisc("fq_codel", 8))]) is None


def route(prefix_bits: int, said: bytes) -> bytes:
    """A route's message, as the kernel sends it."""
    return struct.pack("=BB10x", 2, prefix_bits) + said


def test_a_default_route_leads_through_one_interface_or_several() -> None:
    via = attribute(5, bytes(4))
    one = via + attribute(4, struct.pack("=i", 7))
    hop = struct.pack("=HBBi", 16, 0, 0, 8) + via, struct.pack("=HBBi", 8, 0, 0, 9)
    assert links_of(route(0, one)) == {7}
    assert links_of(route(0, attribute(9, b"".join(hop)))) == {8, 9}
    assert links_of(route(24, one)) == set()
    assert links_of(route(0, via)) == set(), "an unreachable one"


@given(st.binary(max_size=64))
def test_whatever_the_next_hops_are_the_reader_ends(hops: bytes) -> None:
    assert len(links_of(route(0, attribute(9, hops)))) <= 8
