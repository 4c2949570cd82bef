"""Whether 20 ms of normal jitter on 173 ms reorder anything at 1 Gbit/s of full-size frames, both directions at once.

By hand, in a lab in virtual time, in trains of 100000 packets. Takes half a minute of a CPU a train.

Example:
  longhaul lab run -- python3 tests/bench/order.py 100000
"""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

from helped import parser

from emulator.analysis.impairment_statistics import overtakers
from emulator.control.appliance import Appliance
from emulator.hosts.tools.frame_stream import Arrival, FrameFlow, Stream
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.bottleneck import frame_bytes
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

MS = 10**6
TRAIN = 100_000
FRAME = frame_bytes(1500)
EVERY_NS = FRAME * 8
WISH = Impairment(173 * MS, 20 * MS, distribution="normal", rate_bps=10**9)


def main(packets: int) -> None:
    """One line a train and one for all; a train is what the receivers can hold."""
    topology = Topology("order", "hub", (Lane("far", WISH, WISH),))
    appliance = Appliance(NetlinkKernel(), Path(tempfile.mkdtemp()))
    appliance.up(topology)
    ways = (("hub", "far"), ("far", "hub"))
    lost = overtaken = sent = 0
    for _ in range(packets // TRAIN):
        with Stream(topology, [FrameFlow(*way, TRAIN, EVERY_NS, FRAME) for way in ways]) as stream:
            seen = stream.run(2 * 10**9)
        sent, lost = sent + 2 * TRAIN, lost + 2 * TRAIN - sum(map(len, seen))
        overtaken += sum(map(overtakers, seen))
        print(f"{sent} sent, {lost} lost, {overtaken} overtaken; {spread(chain(*seen))}", flush=True)


def spread(seen: chain[Arrival]) -> str:
    """What the frames took, in ms."""
    delays = sorted(one.received_ns - one.sent_ns for one in seen)
    return "delay {:.3f} / {:.3f} / {:.3f} ms (least, median, most)".format(
        *(delays[i] / MS for i in (0, len(delays) // 2, -1))
    )


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("packets", nargs="?", type=int, default=1_000_000, help="each way; a million unless said")
    main(said.parse_args().packets)
