"""What somebody has typed and not applied, in a real browser: nothing else takes it away."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from support.browser_visit import Site
from support.web_daemon import AUTHOR

from emulator.control.appliance import Appliance
from emulator.control.change_log import Author
from emulator.plan.state import State

OUT = "Outbound (hub to site)"


def rtt_ns(site: Site, name: str) -> int:
    """What is asked of a lane."""
    topology = site.house.appliance.topology()
    assert topology
    return topology.lane(name).rtt_ns


def test_an_edit_stays_when_somebody_else_changes_the_lane_and_the_page_says_who_and_what(
    page: Page, site: Site
) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    page.get_by_label(f"{OUT} Loss, unit").select_option("%")
    page.get_by_label(f"{OUT} Loss", exact=True).fill("2")
    expect(page.get_by_text("Not applied yet: RTT, Loss.")).to_be_visible()
    other = Appliance(site.house.kernel, site.house.appliance.state_dir, author=AUTHOR)
    topology = other.topology()
    assert topology
    other.set_lane(topology.lane("california").with_rtt(90_000_000))
    site.look()
    said = "root (test) changed this lane meanwhile: RTT 32ms → 90ms. Your edits are kept."
    expect(page.get_by_text(said)).to_be_visible()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("50")
    expect(page.get_by_label(f"{OUT} Loss", exact=True)).to_have_value("2")
    page.get_by_role("button", name="Reload and keep my edits").click()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    expect(page.get_by_text("Not applied yet")).to_be_hidden()
    expect(page.get_by_text("changed this lane meanwhile")).to_be_hidden()
    assert rtt_ns(site, "california") == 50_000_000


def test_whoever_changed_the_lane_since_is_named_and_nobody_else(page: Page, site: Site) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    house = site.house
    for user, lane, rtt_ns in (("ann", "california", 90), ("bob", "london", 91), ("cid", "california", 92)):
        author = Author(user, 1000, 1, "longhaul set")
        other = Appliance(house.kernel, house.appliance.state_dir, author=author)
        topology = other.topology()
        assert topology
        other.set_lane(topology.lane(lane).with_rtt(rtt_ns * 1_000_000))
    dan = Appliance(house.kernel, house.appliance.state_dir, author=Author("dan", 1000, 1, "longhaul set"))
    topology = dan.topology()
    assert topology
    dan.set_lane(topology.lane("japan").with_rtt(1_000_000))
    site.look()
    said = "ann (longhaul set) and cid (longhaul set) changed this lane meanwhile: RTT 32ms → 92ms."
    expect(page.get_by_text(said)).to_be_visible()


def test_what_somebody_else_sets_is_kept_beside_an_edit_of_another_field(page: Page, site: Site) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    assert site.house.client.patch("/api/lanes/california", json={"inbound": {"loss": "1%"}}).status_code == 200
    site.look()
    expect(page.get_by_label("Inbound (site to hub) Loss", exact=True)).to_have_value("1")
    expect(page.get_by_text("Inbound Loss none → 1%. Your edits are kept.")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    topology = site.house.appliance.topology()
    assert topology
    assert topology.lane("california").inbound.loss_p32 > 0 == topology.lane("california").outbound.loss_p32


def test_a_lane_that_nobody_edits_follows_without_a_word(page: Page, site: Site) -> None:
    site.house.client.patch("/api/lanes/california", json={"rtt": "90ms"})
    site.look()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("90")
    expect(page.get_by_text("changed this lane meanwhile")).to_have_count(0)
    expect(page.get_by_text("Not applied yet")).to_be_hidden()


def test_an_edit_waits_while_somebody_looks_at_another_lane_and_can_be_discarded(page: Page, site: Site) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    page.get_by_role("button", name="london", exact=True).click()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("80")
    page.get_by_role("button", name="california", exact=True).click()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("50")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("32")
    expect(page.get_by_text("Not applied yet")).to_be_hidden()


def test_leaving_the_page_with_an_edit_asks_first(page: Page) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.get_by_label("RTT", exact=True).press_sequentially("9")
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    assert asked == ["beforeunload"]


def test_a_draft_of_a_topology_is_kept_and_offered_again(page: Page, site: Site) -> None:
    page.goto(site.url + "/topology")
    text = page.locator("#text")
    expect(text).not_to_be_empty()
    draft = "name: x\nhub: y\nlanes:\n  a: {rtt: 32ms}\n"
    text.fill(draft)
    expect(page.locator("#drafted")).to_contain_text("This draft is not up. Your browser keeps it")
    page.goto(site.url + "/history")
    page.goto(site.url + "/topology")
    expect(page.locator("#offered")).to_contain_text("You left a draft that is not up")
    expect(text).to_have_value(site.house.client.get("/api/topology").text)
    page.get_by_role("button", name="Go on with it").click()
    expect(text).to_have_value(draft)
    expect(page.locator("#steps")).to_contain_text("ip link add")
    site.house.client.patch("/api/lanes/london", json={"rtt": "90ms"})
    site.look()
    site.house.client.patch("/api/lanes/london", json={"rtt": "91ms"})
    site.look()
    expect(page.locator("#drafted")).to_contain_text("Somebody has changed the topology since you began")
    expect(text).to_have_value(draft)
    page.get_by_role("button", name="Bring it up").click()
    expect(page.locator("#notes")).to_contain_text("x is up")
    expect(page.locator("#drafted")).to_be_hidden()
    page.reload()
    expect(text).not_to_be_empty()
    expect(page.locator("#offered")).to_be_hidden()


def test_a_draft_can_be_discarded_and_goes_with_a_logout(page: Page, site: Site) -> None:
    page.goto(site.url + "/topology")
    text = page.locator("#text")
    expect(text).not_to_be_empty()
    was = text.input_value()
    text.fill("name: x")
    page.get_by_role("button", name="Discard").click()
    expect(text).to_have_value(was)
    assert page.evaluate("localStorage.length") == 0
    text.fill("name: x")
    assert page.evaluate("localStorage.length") == 1
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("localStorage.length") == 0


def test_the_plan_is_of_what_is_up_now(page: Page, site: Site) -> None:
    page.goto(site.url + "/topology")
    steps, text = page.locator("#steps"), page.locator("#text")
    expect(steps).to_have_text("Nothing to change: this topology is up.")
    was = text.input_value()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Take all down").click()
    expect(page.locator("#notes")).to_contain_text("down: ")
    expect(steps).to_contain_text("ip netns add lh-japan")
    expect(text).to_have_value(was)
    page.get_by_role("button", name="Bring it up").click()
    expect(steps).to_have_text("Nothing to change: this topology is up.")
    site.look()
    site.house.client.delete("/api/topology")
    site.look()
    expect(steps).to_contain_text("ip netns add lh-japan")
    site.house.up()
    site.look()
    expect(steps).to_have_text("Nothing to change: this topology is up.")


def test_all_is_taken_down_although_the_intent_is_spoilt(page: Page, site: Site) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    (site.house.appliance.state_dir / "intent.json").write_text("{")
    site.house.tick()
    page.goto(site.url + "/topology")
    expect(page.locator("#steps")).to_contain_text("run longhaul down: it sets the file aside")
    page.get_by_role("button", name="Take all down").click()
    expect(page.locator("#notes")).to_contain_text("intent.json.spoilt")
    assert site.house.kernel.observe() == State()
    page.goto(site.url + "/history")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#notes")).to_contain_text("undone")
    assert rtt_ns(site, "japan") == 346_000_000
