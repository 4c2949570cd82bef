"""Super-frames at a modest rate over a lane of 346 ms one way, and changes under load, in namespaces of its own.

`tests/engine/test_far.py` starts it and judges what it found, which goes to stdout as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from support.engine_receivers import ring_bytes
from support.superframe_traffic import lossless

FAR = "{name: far, hub: hub, lanes: {far: {rtt: 692ms}}}"
MS, FAR_S, BPS = 10**6, 2, 10**9
"""A tenth of what two processors carry when nothing else runs."""


def changed_under_load(appliance: Appliance) -> dict[str, Any]:
    """Frames so close together that some come in at the very instant of a change."""
    topology, results, done, rings = appliance.topology(), list[dict[str, Any]](), threading.Event(), []
    assert topology

    def load() -> None:
        results.append(lossless("lh-far", "hub", "far", BPS, lambda _: not done.is_set()))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for rtt in (80, 4, 120, 2, 160):
            appliance.set_lane(topology.lane("far").with_rtt(rtt * MS))
            rings.append(ring_bytes("lh-far")[0] > 0)
    finally:
        done.set()
        thread.join()
    return results[0] | {"rings": rings}


def main() -> None:
    appliance = Appliance(NetlinkKernel(), Path("/run/state"))
    appliance.up(loader.loads(FAR))
    found = {"far": lossless("lh-far", "hub", "far", BPS, lambda passed_s: passed_s < FAR_S)}
    found["under_load"] = changed_under_load(appliance)
    appliance.down()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
