"""The matrix of all pairs by the API: what is asked and measured, and its verification as a lease of the lanes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House, problem

from emulator.plan.qdisc_ops import DelEgress

MS = 10**6
PAIRS = [("new-york", "california", 32), ("new-york", "london", 80), ("new-york", "japan", 346),
         ("california", "london", 112), ("california", "japan", 378), ("london", "japan", 426)]  # fmt: skip


@pytest.fixture
def up(up: House) -> Iterator[House]:
    """A daemon with the founding star up, whose verification ends with the test."""
    yield up
    up.tools.held.release(100)
    up.verifications.stop()


def ended(house: House) -> dict[str, Any]:
    """The verification once it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := house.client.get("/api/verification").json)["state"] == "running":  # type: ignore[index]
        assert time.monotonic() < deadline, found
        time.sleep(0.005)
    return dict(found)  # type: ignore[arg-type]


def verify(house: House, query: str = "") -> dict[str, Any]:
    """A verification that has ended."""
    answer = house.client.post(f"/api/verification{query}")
    assert answer.status_code == 201, answer.text
    return ended(house)


def matrix(house: House) -> dict[tuple[str, str], dict[str, Any]]:
    """The matrix's rows by pair."""
    house.tick()
    return {(pair["one"], pair["other"]): pair for pair in house.client.get("/api/matrix").json["pairs"]}  # type: ignore[index]


def test_what_is_asked_of_every_pair_and_nothing_where_nothing_is_up(house: House) -> None:
    nothing = {"topology": None, "hub": None, "sites": [], "pairs": [], "verification": None}
    assert house.client.get("/api/matrix").json == nothing
    problem(house.client.post("/api/verification"), 422)
    problem(house.client.get("/api/verification"), 404)
    problem(house.client.post("/api/verification/cancel"), 404)
    house.up()
    found = matrix(house)
    assert [(*names, pair["asked_ns"] // MS) for names, pair in found.items()] == PAIRS
    assert all(pair["measured"] is None and not pair["unmeasurable"] for pair in found.values())


def test_all_pairs_are_verified_and_the_certificate_is_filed(up: House) -> None:
    done = verify(up, "?count=3&impairments=1")
    assert (done["state"], done["finished"], done["total"], done["trouble"]) == ("done", 9, 9, "")
    filed = up.client.get(f"/api/certificates/{done['certificate']}").json
    assert filed is not None
    assert (filed["passed"], filed["count"], len(filed["pairs"])) == (True, 3, 6)
    assert [row["lane"] for row in filed["impairments"]] == ["california", "london", "japan"]
    for pair in matrix(up).values():
        assert (pair["measured"]["passed"], pair["certificate"]) == (True, done["certificate"])
    up.client.patch("/api/lanes/japan", json={"rtt": "300ms"})
    stale = {names for names, pair in matrix(up).items() if pair["measured"] is None}
    assert stale == {names for names in matrix(up) if "japan" in names}


def test_a_pair_that_is_not_as_asked_says_why_and_the_last_one_counts(up: House) -> None:
    up.tools.off_ns["california", "japan"] = 30 * MS
    up.tools.silent.add(("new-york", "japan"))
    up.kernel.apply(DelEgress("lhs-japan"))
    up.usecases.repair(restore=False)
    done = verify(up)
    rows = matrix(up)
    assert rows["california", "japan"]["measured"]["passed"] is False
    assert rows["new-york", "japan"]["unanswered"]["why"] == "none of 11 echoes was answered"
    for names in (("california", "japan"), ("new-york", "japan")):
        assert "japan has drifted from the topology" in " ".join(rows[names]["why"])
    assert rows["california", "london"]["why"] == []
    assert up.client.get(f"/api/certificates/{done['certificate']}").json["passed"] is False  # type: ignore[index]
    assert up.client.get("/api/status").json["drift"], "a measurement repairs nothing"  # type: ignore[index]
    up.tools.off_ns.clear()
    again = verify(up, "?pair=japan,california")
    assert again["total"] == 1
    rows = matrix(up)
    assert rows["california", "japan"]["measured"]["passed"] is True
    assert rows["new-york", "japan"]["unanswered"] is not None


def test_nobody_changes_the_lanes_meanwhile_and_a_cancelled_one_files_nothing(up: House) -> None:
    up.tools.held = type(up.tools.held)(0)
    assert up.client.post("/api/verification").status_code == 201
    up.tick()
    assert up.client.get("/api/status").json["leased"]  # type: ignore[index]
    for answer in (
        up.client.post("/api/verification"),
        up.client.patch("/api/lanes/london", json={"rtt": "90ms"}),
        up.up(),
        up.client.post("/api/undo"),
        up.client.post("/api/runs", json={"rtt": ["1ms"]}),
    ):
        problem(answer, 409)
    assert up.client.post("/api/verification/cancel").status_code == 200
    up.tools.held.release(100)
    done = ended(up)
    assert (done["state"], done["certificate"], done["finished"]) == ("cancelled", None, 1)
    assert up.client.get("/api/certificates").json == {"certificates": []}
    assert up.client.patch("/api/lanes/london", json={"rtt": "90ms"}).status_code == 200


def test_who_may_verify_and_what_is_refused(up: House, tmp_path: Path) -> None:
    reader = up.someone(TOKENS.read)
    assert reader.get("/api/matrix").status_code == 200
    for path in ("/api/verification", "/api/verification/cancel"):
        problem(reader.post(path), 403)
        problem(up.someone().post(path), 401)
    for query in ("pair=california", "pair=x,california", "pair=japan,japan", "count=0", "impairments=yes"):
        problem(up.client.post(f"/api/verification?{query}"), 422)
    up.tick()
    assert not up.client.get("/api/status").json["leased"]  # type: ignore[index]
    up.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    assert "waits for confirmation" in problem(up.client.post("/api/verification"), 409)["detail"]
    up.client.post("/api/confirm")
    assert verify(up)["state"] == "done"
