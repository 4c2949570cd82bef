"""A program with one more impairment than the product: a field of `Impairment`, and a row of the table.

Nothing else knows of it. `python -m support.made_up_key FOLDER` prints as JSON where it is found;
`... FOLDER browser` sets it in the panel of a lane, in Chromium.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from emulator import units
from emulator.model import impairment


class Sparkling(impairment.Impairment, frozen=True):
    """With a probability that a packet sparkles."""

    sparkle_p32: int = 0


impairment.Impairment = Sparkling  # type: ignore[misc]

from emulator.model import impairment_keys as table  # noqa: E402  the table and all else see the new field

SPARKLE = table.Key(
    "sparkle", ("sparkle_p32",), "share", "Sparkling", "probability that a packet sparkles",
    units.parse_probability_p32, lambda p32: units.compact(units.format_probability(p32)), ("1%",),
    range=table.Range(1e-4, 100), schedulable=True,
)  # fmt: skip
table.KEYS += (SPARKLE,)

from emulator.cli.main import main  # noqa: E402
from emulator.config import key_reference, loader  # noqa: E402
from emulator.control.appliance import Appliance  # noqa: E402
from emulator.kernel.fake import FakeKernel  # noqa: E402
from emulator.model.timeline import Timeline  # noqa: E402
from support.lowered_keys import ignored  # noqa: E402
from support.web_daemon import House  # noqa: E402

YAML = """\
name: t
hub: h
defaults: {sparkle: 1%}
lanes:
  a: {rtt: 8ms}
  b: {rtt: 8ms, inbound: {sparkle: 2%}, flows: {f: {match: {vlan: 7}, sparkle: 3%}}}
schedule:
  tracks:
    - lanes: a
      keys: [{at: 0s, sparkle: 0%}, {at: 10s, sparkle: 100%, ramp: yes}]
    - {lanes: b, trace: trace.csv}
"""


def percent(impairment: Any) -> int:
    """How much it sparkles."""
    return round(impairment.sparkle_p32 * 100 / (2**32 - 1))


def in_files(folder: Path) -> dict[str, Any]:
    """Read, written, and read again; over time."""
    (folder / "trace.csv").write_text("time,sparkle\n0s,7%\n")
    (folder / "t.yaml").write_text(YAML)
    topology = loader.load(folder / "t.yaml")
    a, b = topology.lanes
    assert topology.schedule
    later = Timeline(topology, topology.schedule).at(5 * 10**9)
    return {
        "read": [percent(one) for one in (a.outbound, b.outbound, b.inbound, b.flows[0].inbound)],
        "written": loader.dumps(topology).count("sparkle"),
        "comes back": loader.loads(loader.dumps(topology)) == topology,
        "over time": [percent(later.lane("a").outbound), percent(later.lane("b").inbound)],
        "in the schema": "sparkle" in loader.json_schema()["$defs"]["LaneForm"]["properties"],
    }


def on_the_command_line(folder: Path) -> dict[str, Any]:
    """An option of `set`, and the status after it."""
    (folder / "plain.yaml").write_text("name: t\nhub: h\nlanes: {a: {rtt: 8ms}}\n")
    appliance = Appliance(FakeKernel(), folder / "state")
    said = io.StringIO()
    with redirect_stdout(said):
        codes = [
            main(args, obj=appliance)
            for args in (["up", str(folder / "plain.yaml")], ["set", "a", "--sparkle", "4%", "--direction", "inbound"])
        ]
        said.truncate(0)
        said.seek(0)
        main(["status", "--json"], obj=appliance)
        status = json.loads(said.getvalue())
        said.truncate(0)
        said.seek(0)
        main(["status"], obj=appliance)
        shown = said.getvalue()
        said.truncate(0)
        said.seek(0)
        main(["set", "--help"])
    topology = appliance.topology()
    assert topology
    return {
        "codes": codes,
        "set": percent(topology.lane("a").inbound),
        "status": status["lanes"][0]["settings"]["inbound"].get("sparkle"),
        "shown": "    inbound: sparkle 4%\n" in shown,
        "help": "--sparkle PROBABILITY" in said.getvalue() and SPARKLE.help in " ".join(said.getvalue().split()),
    }


def over_http(folder: Path) -> dict[str, Any]:
    """Patched, in the status, in the table that forms are made of, in the OpenAPI document."""
    house = House(folder)
    house.up()
    patched = house.client.patch("/api/lanes/london", json={"sparkle": "5%"})
    lane = next(one for one in house.client.get("/api/status").json["lanes"] if one["name"] == "london")
    keys = {one["name"]: one for one in house.client.get("/api/keys").json["keys"]}
    return {
        "code": patched.status_code,
        "status": lane["settings"]["inbound"].get("sparkle"),
        "keys": keys["sparkle"]["label"],
        "openapi": house.client.get("/api/openapi.json").text.count("sparkle") > 0,
    }


def in_the_panel(folder: Path) -> dict[str, Any]:
    """Set by hand in the panel of a lane."""
    from playwright.sync_api import expect

    from support.browser_visit import LIMIT_MS, chromium, log_in, served

    house = House(folder)
    house.up()
    with served(house) as site, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        expect.set_options(timeout=LIMIT_MS)
        log_in(page, site.url + "/")
        page.locator("#star [data-lane=london] .dot").click()
        page.get_by_text("More impairments").first.click()
        page.get_by_label("Outbound (hub to site) Sparkling, unit", exact=True).select_option("%")
        page.get_by_label("Outbound (hub to site) Sparkling", exact=True).fill("6")
        page.get_by_role("button", name="Apply", exact=True).click()
        expect(page.locator("#notes .note").last).to_contain_text("london is at")
    topology = house.appliance.topology()
    assert topology
    return {"set": [percent(topology.lane("london").outbound), percent(topology.lane("london").inbound)]}


def everywhere(folder: Path) -> dict[str, Any]:
    """Where it is found without a browser."""
    return {
        "files": in_files(folder),
        "commands": on_the_command_line(folder),
        "http": over_http(folder / "house"),
        "reference": "| `sparkle` | `1%` | probability that a packet sparkles |" in key_reference.markdown(),
        "ignored by the lowering": ignored(),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.stdout.write(json.dumps(in_the_panel(place) if sys.argv[2:] == ["browser"] else everywhere(place)))
