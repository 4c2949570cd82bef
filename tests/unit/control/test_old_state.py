"""Files that an earlier version wrote, read today."""

from __future__ import annotations

from emulator.control.old_state import renewed
from emulator.model.impairment import Impairment
from emulator.model.loss_model import P32, from_burst
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Lane, Topology
from emulator.system.struct_json import from_plain, to_plain

MODEL = from_burst(P32 // 100, 5)  # type: ignore[arg-type]
FRAMES = (
    Keyframe(0, (("loss_p32", 7), ("loss_model", None), ("rate_bps", None))),
    Keyframe(1, (("loss_p32", 0), ("loss_model", MODEL))),
    Keyframe(2, (("rate_bps", 8), ("down", 1))),
)
TODAY = Topology(
    "t", "hub", (Lane("a", Impairment(rate_bps=800, aqm="codel")),), schedule=Schedule((Track((), FRAMES),))
)


def test_what_todays_version_wrote_stays() -> None:
    assert renewed(to_plain(TODAY)) == to_plain(TODAY)


def test_a_queue_a_loss_and_no_rate_of_an_earlier_version() -> None:
    old = to_plain(TODAY)
    for side in ("outbound", "inbound"):
        old["lanes"][0][side]["queue"] = old["lanes"][0][side].pop("aqm")
    first, second, _ = old["schedule"]["tracks"][0]["keys"]
    first["values"] = [["loss", 7], ["rate_bps", 0]]
    second["values"] = [["loss", to_plain(MODEL)]]
    assert from_plain(Topology, renewed(old)) == TODAY
