"""The pcapng writer, read back by an independent reader."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support import pcapng_reader

from emulator.hosts.tools import pcapng
from emulator.kernel.packet_tap import TappedFrame

frames = st.builds(
    lambda at_ns, sent, data, more: TappedFrame(at_ns, sent, data, len(data) + more),
    st.integers(0, 2**63 - 1), st.booleans(), st.binary(max_size=100), st.integers(0, 2**16),
)  # fmt: skip


@given(st.lists(frames, max_size=8), st.text(max_size=20), st.integers(0, 65535), st.integers(0, 2**40))
def test_what_is_written_is_read(written: list[TappedFrame], text: str, snap_bytes: int, dropped: int) -> None:
    head = pcapng.header("Longhaul", text) + pcapng.interface(text, "a port", snap_bytes)
    body = b"".join(map(pcapng.packet, written))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(head + body + pcapng.statistics(5, len(written) + dropped, dropped))
        found = pcapng_reader.read(path)
    assert [(f.at_ns, not f.inbound, f.data, f.length) for f in found.frames] == [
        (f.at_ns, f.sent, f.data, f.length) for f in written
    ]
    assert (found.section[1].decode(), found.interface[2].decode(), found.snap_bytes) == (text, text, snap_bytes)
    assert found.interface[9] == b"\x09", "times in nanoseconds"
    assert (found.received, found.dropped) == (len(written) + dropped, dropped)


def test_a_file_is_the_same_on_every_machine() -> None:
    """The bytes of the specification's blocks, by hand."""
    frame = TappedFrame(1 << 32 | 7, True, b"abcde", 60)
    assert pcapng.packet(frame).hex() == (
        "06000000" "34000000" "00000000" "01000000" "07000000" "05000000" "3c000000" "6162636465000000"
        "02000400" "02000000" "00000000" "34000000"
    )  # fmt: skip
