"""The panel of a lane in a real browser: every impairment there is, and nothing lost that was not touched."""

from __future__ import annotations

from msgspec.structs import asdict
from playwright.sync_api import Page, expect
from support.browser_visit import Site, fits

from emulator import units
from emulator.kernel.protocol import QueueCounters
from emulator.model import loss_model
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Lane

OUT = "Outbound (hub to site)"
FIRST = Impairment(
    delay_ns=40_000_000, jitter_ns=2_000_000, distribution="normal", keep_order=False, rate_bps=10**8,
    buffer=Buffer(packets=100), loss_model=loss_model.parse("gilbert 1% 20% 80% 0.1%"),  # type: ignore[arg-type]
    duplicate_p32=units.parse_probability_p32("0.5%"), ber_e15=10**6, reorder_p32=units.parse_probability_p32("1%"),
    ecn=True, aqm="codel", overhead_bytes=22, atm=True,
)  # fmt: skip


def lane(site: Site, name: str) -> Lane:
    """What is asked for."""
    topology = site.house.appliance.topology()
    assert topology
    return topology.lane(name)


def apply(page: Page, said: str) -> None:
    """Apply, and wait until it is done."""
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes .note").last).to_contain_text(said)
    page.locator("#notes").evaluate("notes => notes.replaceChildren()")


def quantity(page: Page, label: str, number: str, unit: str) -> None:
    """Set a number with its unit."""
    page.get_by_label(f"{OUT} {label}, unit", exact=True).select_option(unit)
    page.get_by_label(f"{OUT} {label}", exact=True).fill(number)


def test_every_impairment_is_set_shown_again_and_kept_when_another_changes(page: Page, site: Site) -> None:
    page.locator("#star [data-lane=london] .dot").click()
    expect(page.get_by_role("heading", name="Lane london")).to_be_visible()
    page.get_by_text("More impairments").first.click()
    quantity(page, "Jitter", "2", "ms")
    quantity(page, "Rate", "100", "Mbit")
    quantity(page, "Buffer", "100", "p")
    quantity(page, "Loss", "1", "%")
    page.get_by_label(f"{OUT} Loss pattern", exact=True).select_option("gilbert")
    for name, share in (("p: into a bad spell", "1"), ("r: out of it", "20"), ("1-h: lost when bad", "80")):
        page.get_by_label(f"{OUT} {name}").fill(share)
    page.get_by_label(f"{OUT} 1-k: lost when good").fill("0.1")
    quantity(page, "Duplicated", "0.5", "%")
    quantity(page, "Corrupted", "1e-9", "bit errors")
    quantity(page, "Reordered", "1", "%")
    quantity(page, "Overhead", "22", "B")
    for label, word in (
        ("Jitter shape", "normal"), ("Order", "free"), ("AQM", "codel"), ("ECN", "yes"), ("Cells", "atm"),
    ):  # fmt: skip
        page.get_by_label(f"{OUT} {label}", exact=True).select_option(word)
    apply(page, "london is at 80ms")
    assert (lane(site, "london").outbound, lane(site, "london").inbound) == (FIRST, FIRST)

    page.reload()
    expect(page.get_by_text("More impairments, 9 set").first).to_be_visible()
    page.get_by_label("RTT", exact=True).fill("100")
    apply(page, "london is at 100ms")
    changed = Impairment(**{**asdict(FIRST), "delay_ns": 50_000_000})
    assert (lane(site, "london").outbound, lane(site, "london").inbound) == (changed, changed)


def test_without_a_rate_what_the_bottleneck_had_goes_too(page: Page, site: Site) -> None:
    site.house.client.patch("/api/lanes/california", json={"rate": "10Mbit", "buffer": "5ms", "aqm": "red"})
    site.look()
    expect(page.get_by_label(f"{OUT} Buffer", exact=True)).to_have_value("5")
    expect(page.get_by_label(f"{OUT} AQM", exact=True)).to_have_value("red")
    page.get_by_label(f"{OUT} Rate, unit", exact=True).select_option("none")
    expect(page.get_by_label(f"{OUT} AQM", exact=True)).to_be_disabled()
    apply(page, "california is at 32ms")
    assert lane(site, "california").outbound == Impairment(delay_ns=16_000_000)


def test_losses_in_bursts_and_seeds_apart(page: Page, site: Site) -> None:
    page.get_by_label("both directions alike").uncheck()
    quantity(page, "Loss", "2", "%")
    page.get_by_label(f"{OUT} Loss pattern", exact=True).select_option("burst")
    page.get_by_label(f"{OUT} Loss, packets in a row").fill("4")
    page.get_by_text("More impairments").first.click()
    page.get_by_label(f"{OUT} Seed").fill("7")
    apply(page, "california is at 32ms")
    california = lane(site, "california")
    assert (california.outbound.loss_model, california.outbound.seed) == (loss_model.parse("2% burst 4"), 7)
    assert california.inbound == Impairment(delay_ns=16_000_000, rate_bps=10**10)


def test_what_is_wrong_with_an_impairment_stands_at_it(page: Page) -> None:
    page.get_by_text("More impairments").first.click()
    quantity(page, "Duplicated", "150", "%")
    page.get_by_text("More impairments").first.click()
    page.get_by_role("button", name="Apply", exact=True).click()
    row = page.locator(".quantity", has=page.get_by_label(f"{OUT} Duplicated", exact=True))
    expect(row.locator(".wrong")).to_have_text("'150%' is above 100%")


def test_a_preset_is_the_round_trip_to_a_place(page: Page) -> None:
    page.locator("#star [data-lane=london] .dot").click()
    expect(page.get_by_role("heading", name="Lane london")).to_be_visible()
    page.get_by_label("Preset").select_option("tokyo, 159.4 ms")
    expect(page.get_by_label("RTT", exact=True)).to_have_value("159.41")


def test_a_flow_of_a_lane_is_shown_set_and_watched_by_itself(page: Page, site: Site) -> None:
    voice = {"voice": {"match": {"dscp": "ef", "port": 5060}, "rtt": "120ms"}}
    assert site.house.client.patch("/api/lanes/london", json={"flows": voice}).status_code == 200
    site.look()
    page.locator("#star [data-lane=london] .dot").click()
    expect(page.get_by_label("Shown below")).to_have_value("")
    expect(page.get_by_label("RTT", exact=True)).to_have_value("80")
    page.get_by_label("Shown below").select_option("voice")
    expect(page.get_by_label("RTT", exact=True)).to_have_value("120")
    page.get_by_label("both directions alike").uncheck()
    quantity(page, "Loss", "1", "%")
    page.get_by_label("RTT", exact=True).fill("100")
    apply(page, "Flow voice of london is at 100ms")
    before, (after,) = lane(site, "london"), lane(site, "london").flows
    assert (before.rtt_ns, before.outbound.loss_p32) == (80_000_000, 0)
    assert (after.outbound.delay_ns, after.inbound.delay_ns, after.inbound.loss_p32) == (50_000_000, 50_000_000, 0)
    assert after.outbound.loss_p32 == units.parse_probability_p32("1%")
    expect(page.get_by_label("Shown below")).to_have_value("voice")
    page.get_by_label(f"{OUT} Loss", exact=True).fill("101")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator(".row.wrong, [aria-invalid=true]").first).to_be_visible()
    assert lane(site, "london").flows == (after,)
    rows = page.get_by_role("region", name="Flows of the lane").get_by_role("row")
    expect(rows.first).to_contain_text("voiceport 5060, dscp 46")
    site.house.kernel.counted["lhs-london"] = QueueCounters(
        0, 0, 0, 0, 0, 0, flows=(QueueCounters(9, 12_500, 0, 0, 0, 0),)
    )
    site.look()
    expect(rows.first).to_contain_text("↑ 100 kbit/s")
    expect(rows.last).to_contain_text("the rest")
    page.set_viewport_size({"width": 390, "height": 800})
    fits(page, 390)
