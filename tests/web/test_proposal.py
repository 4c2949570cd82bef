"""A topology proposed from ports, places and rates: every mistake at its field of the form, and nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.fake_machines import appliance_box
from support.web_daemon import STAR, House, problem

from emulator.config import loader
from emulator.plan.nic_inventory import free_pairs

MS = 10**6


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon on a box with six free ports, nothing up."""
    made, box = House(tmp_path), appliance_box()
    made.kernel.links.update(box.links)
    made.kernel.nics.update(box.nics)
    return made


def lane(hub_port: str = "eth1", site_port: str = "eth2", **said: str) -> dict[str, str]:
    return {"site": "london", "hub_port": hub_port, "site_port": site_port, **said}


def proposed(house: House, lanes: list[dict[str, str]], **head: str) -> Any:
    return house.client.post("/api/topology/proposal", json={"hub": "new-york", "lanes": lanes, **head})


def mistakes(house: House, lanes: list[dict[str, str]], **head: str) -> dict[str, str]:
    """What is wrong, by field."""
    return {one["path"]: one["text"] for one in problem(proposed(house, lanes, **head), 422)["mistakes"]}


def test_ports_come_in_the_pairs_that_init_makes(house: House) -> None:
    answer: Any = house.client.get("/api/nics").json
    pairs = [[one.name, other.name] for one, other in free_pairs(house.appliance.nics())]
    assert answer["pairs"] == pairs == [["eth1", "eth2"], ["eth3", "eth4"], ["eth5", "eth6"]]
    assert next(one["up"] for one in answer["nics"] if one["name"] == "eth3") is False


def test_a_proposal_is_a_file_and_its_plan_and_changes_nothing(house: House) -> None:
    for port in ("eth3", "eth4"):
        house.kernel.nics[port] = replace(house.kernel.nics[port], speed_mbps=25_000)
    lanes = [lane(rate="1Gbit"), lane("eth3", "eth4", site="mars", rtt="400ms", host="root@mars")]
    virtual = proposed(house, [{"site": "tokyo"}]).json
    assert (loader.loads(virtual["topology"]).lanes[0].ports, virtual["rtts"][0]["source"][:8]) == (None, "estimate")
    answer = proposed(house, lanes, hub_host="root@hub", by="pci")
    assert answer.status_code == 200, answer.text
    found = answer.json
    topology = loader.loads(found["topology"])
    assert (topology.name, topology.hub, topology.hub_host) == ("new-york", "new-york", "root@hub")
    london, mars = topology.lanes
    assert (london.rtt_ns, london.outbound.rate_bps, london.named_ports) == (
        80 * MS,
        10**9,
        ("0000:01:00.0", "0000:02:00.0"),
    )
    assert (mars.rtt_ns, mars.line_rate_bps, mars.host) == (400 * MS, 25 * 10**9, "root@mars")
    assert [one["source"][:8] for one in found["rtts"]] == ["the foun", ""]
    assert found["changed"] and not found["performed"] and "new-york would be up" in found["summary"]
    assert any("lh-london" in step["command"] for step in found["steps"])
    assert house.appliance.topology() is None
    assert house.client.get("/api/history").json == {"entries": []}
    up = house.client.put(
        "/api/topology", data=found["topology"], content_type="text/yaml", headers={"If-Match": found["etag"]}
    )
    assert up.status_code == 200, up.text


def test_every_mistake_is_at_its_field(house: House) -> None:
    lanes = [
        lane(rtt="4", rate="fast"), lane("eth1", "eth0", rtt="1ms"), {"rtt": "1ms"}, lane("eth3", "", site="x"),
        lane("eth9", "eth5", site="Y!", rtt="1ms"), {"site": "z", "rtt": "1ms", "host": "root@z"},
    ]  # fmt: skip
    found = mistakes(house, lanes, hub="", by="colour")
    assert {path: text[:24] for path, text in found.items()} == {
        "by": "'colour' is no way to na",
        "hub": "is missing: name the pla",
        "lanes.0.rtt": "'4' has no unit: write 4",
        "lanes.0.rate": "'fast' is not a rate: us",
        "lanes.1.hub_port": "lane 1 uses eth1 already",
        "lanes.1.site": "lane 1 has this name: us",
        "lanes.1.site_port": "eth0 carries the default",
        "lanes.2.site": "is missing: name the pla",
        "lanes.3.rtt": "is missing: type one, su",
        "lanes.3.site_port": "is missing: a lane has t",
        "lanes.4.hub_port": "this machine has no inte",
        "lanes.4.site": found["lanes.4.site"][:24],
        "lanes.5.site": found["lanes.5.site"][:24],
    }
    assert "Y!" in found["lanes.4.site"]
    assert "virtual lane cannot have a host" in found["lanes.5.site"]
    assert list(mistakes(house, [])) == ["lanes"]


def test_what_the_machine_refuses_is_at_its_field_too(house: House) -> None:
    house.kernel.nics["eth2"] = replace(house.kernel.nics["eth2"], speed_mbps=1000)
    house.kernel.links["eth4"] = replace(house.kernel.links["eth4"], mtu=9000)
    lanes = [lane(rtt="80ms"), lane("eth3", "eth4", site="paris")]
    assert {path: text[:28] for path, text in mistakes(house, lanes).items()} == {
        "lanes.0.site_port": "eth1 at 10000 Mbit/s and eth",
        "lanes.1.site_port": "has MTU 9000, lane paris wan",
    }
    house.kernel.memory_bytes = 2**20
    assert [*mistakes(house, [lane("eth5", "eth6")])] == [""]


def test_the_port_that_the_client_comes_through_is_never_offered(house: House) -> None:
    """Not by the list, the proposal, or the plan: as `up` refuses it."""
    house.kernel.links["eth5"] = replace(house.kernel.links["eth5"], addresses=("127.0.0.1",))
    refusal = "carries the session you work in, on 127.0.0.1"
    rows: Any = house.client.get("/api/nics").json
    assert refusal in next(one["reasons"] for one in rows["nics"] if one["name"] == "eth5")
    assert ["eth5", "eth6"] not in rows["pairs"]
    assert refusal in mistakes(house, [lane("eth5", "eth6")])["lanes.0.hub_port"]
    text = "name: n\nhub: h\nlanes:\n  l: {rtt: 1ms, ports: {hub: eth5, site: eth6}}\n"
    for query in ("?dry_run=1", ""):
        said = problem(house.client.put(f"/api/topology{query}", data=text, content_type="text/yaml"), 409)
        assert refusal in said["detail"]


def test_what_somebody_else_brought_up_is_replaced_only_as_its_tag_says(house: House) -> None:
    found = proposed(house, [lane()]).json
    assert house.client.put("/api/topology", data=STAR.read_text(), content_type="text/yaml").status_code == 200
    late = {"data": found["topology"], "content_type": "text/yaml"}
    problem(house.client.put("/api/topology", headers={"If-Match": found["etag"]}, **late), 412)
    again = proposed(house, [lane()]).json
    assert any("lh-japan" in step["command"] and " del " in step["command"] for step in again["steps"])
    assert house.client.put("/api/topology", headers={"If-Match": again["etag"]}, **late).status_code == 200
    own = proposed(house, [lane()]).json
    assert (own["changed"], own["steps"]) == (False, [])


def test_a_form_that_is_none_is_told(house: House) -> None:
    assert [*mistakes(house, [lane(colour="red")])] == ["lanes.0.colour"]
    assert [*mistakes(house, [{"site": f"s{n}", "rtt": "1ms"} for n in range(65)])] == ["lanes"]
