"""Every value that a user may write is refused when it is read, or reaches netlink and is read back the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.config import loader
from emulator.control.reconcile import apply
from emulator.errors import InputError, RefusedError
from emulator.kernel import codec_aqm, codec_netem, prepared_request, qdisc_messages
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import LONGEST_DELAY_NS, MOST_RATE_BPS
from emulator.model.impairment_keys import KEYS, Key, named
from emulator.model.topology import LEAST_MTU, MOST_MTU, Topology
from emulator.plan.aqm import TICK_NS
from emulator.plan.desired_state import wanted
from emulator.plan.ops import Op
from emulator.plan.preconditions import refuse
from emulator.plan.qdisc_ops import AQM_KINDS, SetNetem, SetQueue, SetShaper, Together

codec_netem.register()

UNITS = {
    "time": ["ns", "us", "ms", "s", "min", "h"],
    "rate": ["bit", "kbit", "Mbit", "Gbit", "Tbit"],
    "size": ["B", "KiB", "MiB", "GiB", "TiB", "p", "packets", "ns", "ms", "s", "h"],
    "octets": ["B", "KiB"],
    "share": ["%", ""],
    "loss": ["%", ""],
    "count": [""],
}
EDGES = [0, 1, 2, 7, 8, 9, 12, 96, 99, 100, 255, 256, 65_535, 65_536]
EDGES += [2**bits + off for bits in (31, 32, 33, 62, 63, 64, 65) for off in (-1, 0, 1)]
REST = {"delay": "20ms", "jitter": "1ms", "rate": "1Gbit"}
"""What some keys need beside them."""


def amounts(key: Key) -> st.SearchStrategy[str]:
    """Texts of a key: its words, or numbers from both ends of every unit, and between."""
    words = [one.word for one in key.choices]
    number = st.sampled_from(EDGES) | st.integers(0, 10**6) | st.integers(0, 10**30)
    texts = st.builds(lambda n, unit: f"{n}{unit}", number, st.sampled_from(UNITS.get(key.kind, [""])))
    return st.sampled_from([*words, *key.examples]) if words else texts | st.sampled_from(list(key.examples))


def sent(kernel: FakeKernel) -> list[tcmsg]:
    """The messages of all operations that a kernel was told, encoded and decoded again."""
    found = []
    for op in kernel.log:
        if isinstance(op, qdisc_messages.MessageOp):
            for message in qdisc_messages.messages(op, lambda _: 7):
                decoded = tcmsg(prepared_request.encode([message]))
                decoded.decode()
                found.append(decoded)
    return found


def dumped(kind: str, options: Any) -> Any:
    """What the kernel tells of a queue that it was told: it keeps CoDel's times in ticks, and rounds twice."""
    times = {f"TCA_{kind.upper()}_{name}" for name in ("TARGET", "INTERVAL") if kind in ("codel", "fq_codel")}
    options["attrs"] = [(n, v * 1000 // TICK_NS * TICK_NS // 1000 if n in times else v) for n, v in options["attrs"]]
    return options


def each(log: list[Op]) -> list[Op]:
    return [one for op in log for one in (op.ops if isinstance(op, Together) else (op,))]


def drive(text: str) -> bool:
    """Whether a topology is taken; if so, netlink gives back exactly what it was told of every queue."""
    kernel = FakeKernel()
    have = kernel.observe()
    try:
        topology = loader.loads(text)
        refuse(topology, have)
    except (InputError, RefusedError):
        return False
    apply(kernel, wanted(topology, have), have)
    back = [(m.get_attr("TCA_KIND"), m.get_attr("TCA_OPTIONS")) for m in sent(kernel)]
    ops = each(kernel.log)
    netems = [codec_netem.decode_netem(options) for kind, options in back if kind == "netem"]
    assert netems == [op.netem for op in ops if isinstance(op, SetNetem)]
    tables = [op.netem.distribution for op in ops if isinstance(op, SetNetem)]
    assert [netem.distribution for netem in netems] == tables
    shapers = [codec_netem.decode_shaper(options) for kind, options in back if kind == "tbf"]
    assert shapers == [op.shaper for op in ops if isinstance(op, SetShaper)]
    queues = [codec_aqm.decode(kind, dumped(kind, options)) for kind, options in back if kind in AQM_KINDS[1:]]
    told = [op for op in ops if isinstance(op, SetQueue) and op.queue]
    assert queues == [op.queue for op in told]
    return True


def lane(said: Mapping[str, str], **of_the_lane: object) -> str:
    tree = {"outbound": dict(said), "inbound": {"delay": "20ms"}, **of_the_lane}
    return json.dumps({"name": "t", "hub": "h", "lanes": {"a": tree}})


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
@settings(max_examples=60)
@given(data=st.data())
def test_each_key(key: Key, data: st.DataObject) -> None:
    text = data.draw(amounts(key))
    drive(lane({**REST, "jitter": "0ms" if key.name == "delay" else "1ms", key.name: text}))


@given(
    st.fixed_dictionaries({}, optional={key.name: amounts(key) for key in KEYS}),
    st.integers(LEAST_MTU, MOST_MTU) | st.sampled_from([LEAST_MTU - 1, LEAST_MTU, MOST_MTU, MOST_MTU + 1]),
    amounts(named("rate")),
)
@example({"rate": "8bit"}, 1500, "10Gbit")
@example({"rate": "40bit"}, 1500, "10Gbit")
@example({"rate": "80bit"}, 1500, "10Gbit")
@example({"rate": "1kbit"}, 65_521, "10Gbit")
@example({"rate": "1Mbit", "buffer": "4GiB"}, 1500, "10Gbit")
@example({"rate": "1Mbit", "aqm": "codel", "delay": "40min"}, 1500, "10Gbit")
@example({"rate": "99bit", "overhead": "65535B", "cells": "atm", "aqm": "red"}, 576, "8bit")
def test_all_keys_at_once(said: dict[str, str], mtu: int, line_rate: str) -> None:
    drive(lane(said, mtu=mtu, line_rate=line_rate))


@pytest.mark.parametrize(
    ("said", "mtu"),
    [
        ({"rate": "96bit"}, 1500),
        ({"rate": "3816bit"}, MOST_MTU),
        ({"rate": f"{MOST_RATE_BPS}bit", "delay": "1ms"}, 1500),
        ({"delay": f"{LONGEST_DELAY_NS}ns", "rate": "96bit"}, 1500),
        ({"delay": "3s", "jitter": "2147483647ns"}, 1500),
        ({"rate": "1Mbit", "buffer": f"{2**32 - 1}B"}, 1500),
        ({"rate": "1Mbit", "overhead": "65535B", "cells": "atm"}, 1500),
        ({"rate": "1Mbit", "aqm": "codel", "delay": "2199s"}, 1500),
        ({"rate": "1Mbit", "aqm": "cake", "delay": "4294s", "buffer": "4294967295B"}, 1500),
        ({"delay": "1ms", "seed": f"{2**64 - 1}"}, 1500),
    ],
)
def test_the_ends_themselves_are_taken(said: dict[str, str], mtu: int) -> None:
    assert drive(lane(said, mtu=mtu, line_rate="1Mbit"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"rate": "88bit"}, "rate 88 bit/s is below 96 bit/s, the lowest that the kernel's tbf has for an MTU of 1500"),
        ({"rate": "10001Gbit"}, "rate 10.001 Tbit/s is above the highest, 10 Tbit/s"),
        ({"delay": "25h"}, "a one-way delay of 90000 s is above the longest, 86400 s"),
        ({"rate": "1Mbit", "buffer": "4GiB"}, "a buffer of 4 GiB is above the kernel's 4294967295 B"),
        ({"rate": "1Mbit", "aqm": "fq-codel", "delay": "2200s"}, "fq-codel takes an RTT of 2199 s at most"),
        ({"rate": "1Mbit", "aqm": "cake", "delay": "4295s"}, "cake takes an RTT of 4294 s at most"),
    ],
)
def test_what_lies_beyond_is_told_at_the_lane(said: dict[str, str], told: str) -> None:
    with pytest.raises(InputError) as error:
        loader.loads(lane(said))
    assert "lanes.a: " in str(error.value)
    assert told in str(error.value)


TIMES = [0, 1, 2, 999_999, 10**6, 10**9, 366 * 86_400 * 10**9, 366 * 86_400 * 10**9 + 1, 2**63, 10**30]
FIELDS = ("at", "loop", "step", "start")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("ns", TIMES)
def test_each_time_of_a_schedule(field: str, ns: int) -> None:
    """What is taken is a time that the clock can hold, and a lap in which it moves."""
    times = {"at": 0, "loop": 400 * 86_400 * 10**9 if field == "at" else 10**9, "step": 10**9, "start": 0} | {field: ns}
    if field == "at":
        del times["loop"]
    track = {"keys": [{"at": f"{times['at']}ns", "rtt": "8ms"}]}
    schedule = {key: f"{value}ns" for key, value in times.items() if key != "at"} | {"tracks": [track]}
    text = json.dumps({"name": "t", "hub": "h", "lanes": {"a": {"rtt": "1ms"}}, "schedule": schedule})
    try:
        topology: Topology = loader.loads(text)
    except InputError:
        taken = False
    else:
        taken = True
        assert topology.schedule
        assert topology.schedule.start.epoch_ns(2**60) + topology.schedule.last_ns < 2**63
    least = {"at": 0, "start": 0}.get(field, 10**6)
    assert taken == (least <= ns <= 366 * 86_400 * 10**9)


@pytest.mark.parametrize(
    ("start", "taken"),
    [("1969-12-31T23:59:59Z", False), ("1970-01-01T00:00:00Z", True), ("2260-12-31T00:00:00Z", True),
     ("2262-04-12T00:00:00Z", False), ("9999-12-31T23:59:59Z", False)],
)  # fmt: skip
def test_a_start_within_the_kernels_years(start: str, taken: bool) -> None:
    keys = [{"at": "0s", "rtt": "8ms"}]
    schedule = {"start": start, "tracks": [{"keys": keys}]}
    text = json.dumps({"name": "t", "hub": "h", "lanes": {"a": {"rtt": "1ms"}}, "schedule": schedule})
    try:
        loader.loads(text)
    except InputError as error:
        assert "a start is within the years 1970..2260" in str(error)
        assert not taken
    else:
        assert taken


def of_topology(**said: Any) -> str:
    return json.dumps({"name": "t", "hub": "h", "lanes": {"a": {"rtt": "1ms"}}} | said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"lanes": {"a": {"address": "10.77.0.0"}}}, "address 10.77.0.0 is no host's"),
        ({"lanes": {"a": {"address": "10.77.0.255"}}}, "address 10.77.0.255 is no host's"),
        ({"lanes": {"a": {"line_rate": "4bit"}}}, "line rate 4 bit/s is not within 8 bit/s..10 Tbit/s"),
        ({"lanes": {"a": {"line_rate": "11Tbit"}}}, "line rate 11 Tbit/s is not within 8 bit/s..10 Tbit/s"),
    ],
)
def test_fields_of_a_topology(said: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        loader.loads(of_topology(**said))
    assert told in str(error.value)
