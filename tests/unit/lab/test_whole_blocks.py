"""The lab's kernel makes the read() calls with which iperf3 fills a block, and no other program's."""

from __future__ import annotations

import pytest

from emulator.lab import boot
from emulator.lab.boot_options import BootOptions

HALVES = """
import os, socket, sys, time
name, kind = sys.argv[1:]
open("/proc/self/comm", "w").write(name)
reader, writer = os.pipe() if kind == "pipe" else [end.detach() for end in socket.socketpair()]
if not os.fork():
    os.close(reader)
    for _ in range(2):
        os.write(writer, b"half")
        time.sleep(1)
    os._exit(0)
os.close(writer)
os.set_blocking(reader, kind != "at once")
for _ in range(2):
    time.sleep(0.7)
    print(len(os.read(reader, 9)), end=" ")
"""


@pytest.mark.parametrize(
    ("name", "kind", "counted", "read"),
    [
        ("iperf3", "stream", False, [8, 0]), ("iperf3", "stream", True, [4, 4]), ("iperf3", "at once", False, [4, 4]),
        ("iperf3", "pipe", False, [4, 4]), ("redis-server", "stream", False, [4, 4]),
    ],
)  # fmt: skip
def test_iperf3_alone_reads_on_until_its_block_is_full_or_the_stream_ends(
    name: str, kind: str, counted: bool, read: list[int]
) -> None:
    done = boot.capture(["python3", "-c", HALVES, name, kind], BootOptions(counted=counted))
    assert [int(text) for text in done.stdout.split()] == read, done.stderr
