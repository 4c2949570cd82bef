"""The endpoint that makes a topology of ports, places and rates, for people who set an appliance up in the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from emulator import units
from emulator.config import loader, writer, yaml_source
from emulator.errors import InputError, Mistake, RefusedError
from emulator.model import geography
from emulator.model.topology import Lane, Topology
from emulator.plan import nic_inventory
from emulator.plan.nic_inventory import NicRow
from web.api.lanes import own_addresses
from web.api.routing import EndpointTable, form_body
from web.api.schemas import Answer, PlanAnswer, step_answers
from web.context import here

table = EndpointTable()
NAMED = ("name", "mac", "pci")
OF_THE_PORTS = ("ports", "mtu", "line_rate")
MOST_LANES = 64


class _Proposed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProposedLane(_Proposed):
    """A lane as a form has it: texts, "" for what is not said. Without ports it is virtual."""

    site: str = Field(default="", description="name of the site; a known place has an RTT to the hub's place")
    rtt: str = Field(default="", description="round-trip time; without it that of the two places")
    rate: str = Field(default="", description="rate of both directions; without it the speed of the ports")
    hub_port: str = Field(default="", description="interface at the hub's end")
    site_port: str = Field(default="", description="interface at the site's end")
    host: str = Field(default="", description="SSH destination of the machine behind the site port")


class ProposalForm(_Proposed):
    """What somebody who sets an appliance up has chosen so far."""

    name: str = Field(default="", description="name of the topology; without it the hub's")
    hub: str = Field(default="", description="name of the local data centre")
    hub_host: str = Field(default="", description="SSH destination of the machine behind the hub ports")
    by: str = Field(default="name", description="how the file names the ports: name, mac or pci")
    lanes: list[ProposedLane] = Field(default=[], max_length=MOST_LANES)


class ProposedRtt(Answer):
    """The round trip of a lane; `source` is what one between two places rests on, empty for a typed one."""

    site: str
    rtt_ns: int
    source: str


class ProposalAnswer(PlanAnswer):
    """The topology as a file, and the plan that brings it up."""

    topology: str
    etag: str = Field(description="of what is up: with it as If-Match nobody's change is replaced unseen")
    rtts: list[ProposedRtt]


@dataclass
class _Proposal:
    """Collects a topology's tree and the mistakes in the form; a mistake has the path of its field in the form."""

    form: ProposalForm
    rows: dict[str, NicRow]
    mistakes: list[Mistake] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """The place of each lane in the form, by its site."""
    sources: dict[str, str] = field(default_factory=dict)

    def wrong(self, path: str, text: str) -> None:
        """Note a mistake in a field."""
        self.mistakes.append(Mistake("request", path, text))

    def topology(self) -> Topology:
        """The topology. Raises InputError with every mistake."""
        if not self.form.lanes:
            self.wrong("lanes", "there is no lane: add a pair of ports, or a virtual lane")
        if self.form.by not in NAMED:
            self.wrong("by", f"{self.form.by!r} is no way to name a port: use {', '.join(NAMED)}")
        self._ports_once()
        lanes = {name: self._lane(number, lane) for number, name, lane in self._named()}
        head = {"name": self.form.name or self.form.hub or "lab", "hub": self.form.hub, "hub_host": self.form.hub_host}
        if not self.form.hub:
            self.wrong("hub", "is missing: name the place of this data centre, such as new-york")
        found = None
        try:
            tree = {key: text for key, text in head.items() if text} | {"lanes": lanes}
            found = loader.build(yaml_source.of_json({"hub": "hub"} | tree, "request"))
        except InputError as error:
            self.mistakes += [self.in_form(one) for one in error.mistakes]
        if self.mistakes or found is None:
            raise InputError(list(dict.fromkeys(self.mistakes)))
        return found

    def _named(self) -> Iterator[tuple[int, str, ProposedLane]]:
        for number, lane in enumerate(self.form.lanes):
            path, name = f"lanes.{number}.site", lane.site
            if not name:
                self.wrong(path, "is missing: name the place at the other end, such as london")
            elif name in self.numbers:
                self.wrong(path, f"lane {self.numbers[name] + 1} has this name: use another one, such as {name}-2")
            if not name or name in self.numbers:
                name = f"unnamed-{number + 1}"
            self.numbers[name] = number
            yield number, name, lane

    def _lane(self, number: int, lane: ProposedLane) -> dict[str, Any]:
        tree = {key: text for key, text in (("rate", lane.rate), ("host", lane.host)) if text}
        if rtt := lane.rtt or self._rtt_of_places(number, lane):
            tree["rtt"] = rtt
        return tree | self._ports(number, lane)

    def _rtt_of_places(self, number: int, lane: ProposedLane) -> str:
        known = geography.places()
        if lane.site in known and self.form.hub in known and lane.site != self.form.hub:
            trip = geography.trip(self.form.hub, lane.site)
            self.sources[lane.site] = trip.source
            return units.compact(units.format_duration(trip.rtt_ns))
        self.wrong(f"lanes.{number}.rtt", "is missing: type one, such as 80ms, or name known places at both ends")
        return ""

    def _ports(self, number: int, lane: ProposedLane) -> dict[str, Any]:
        """The keys of a lane that come from its ports; none for a virtual lane, or where they are mistaken."""
        if not (lane.hub_port or lane.site_port):
            return {}
        pair = []
        for key, name in (("hub_port", lane.hub_port), ("site_port", lane.site_port)):
            row = self.rows.get(name)
            if row is None:
                text = f"this machine has no interface {name!r}" if name else "is missing: a lane has two ports"
                self.wrong(f"lanes.{number}.{key}", text)
            elif row.reasons and row.owner != "longhaul":
                self.wrong(f"lanes.{number}.{key}", f"{name} {'; '.join(row.reasons)}")
            else:
                pair.append(row)
        if len(pair) < 2 or pair[0] is pair[1]:
            return {}
        by = self.form.by if self.form.by in NAMED else "name"
        try:
            tree = writer.lane_tree(nic_inventory.over(Lane("lane"), (pair[0], pair[1]), by))
        except ValueError as error:  # two ports of one card can have one PCI address
            self.wrong(f"lanes.{number}.site_port", str(error))
            return {}
        return {key: tree[key] for key in OF_THE_PORTS}

    def _ports_once(self) -> None:
        seen: dict[str, int] = {}
        for number, lane in enumerate(self.form.lanes):
            for key, name in (("hub_port", lane.hub_port), ("site_port", lane.site_port)):
                if name and name in seen:
                    self.wrong(
                        f"lanes.{number}.{key}", f"lane {seen[name] + 1} uses {name} already: a port has one lane"
                    )
                seen.setdefault(name, number)

    def in_form(self, mistake: Mistake) -> Mistake:
        """A mistake of the topology's tree, at the field of the form that it comes from."""
        head, name, *rest = [*mistake.path.split("."), ""]
        if head != "lanes" or name not in self.numbers:
            return mistake
        key = rest[0] if rest[0] in ProposedLane.model_fields else "site_port" if rest[0] in OF_THE_PORTS else "site"
        return Mistake("request", f"lanes.{self.numbers[name]}.{key}", mistake.text)

    def refused(self, reason: str) -> Mistake:
        """A reason of the machine's against the topology, at the field that it is about."""
        for number, lane in enumerate(self.form.lanes):
            for key, name in (("hub_port", lane.hub_port), ("site_port", lane.site_port)):
                names = {name, self._called(name)}
                if name and any(reason.startswith(f"port {one}: ") for one in names):
                    return Mistake("request", f"lanes.{number}.{key}", reason.partition(": ")[2])
            if match := re.match(rf"lane {re.escape(lane.site)}(?:, \w+)?: (.*)", reason):
                key = "site_port" if "speed" in match[1] else "rtt"
                return Mistake("request", f"lanes.{number}.{key}", match[1])
        return Mistake("request", "", reason)

    def _called(self, name: str) -> str:
        row = self.rows.get(name)
        return nic_inventory.called(row, self.form.by) if row else name


@table("POST", "/api/topology/proposal", ProposalAnswer, body=ProposalForm, problems=(409, 503))
def propose() -> ProposalAnswer:
    """The topology of these ports, places and rates, and the plan that brings it up; changes nothing."""
    usecases, sessions = here().usecases, own_addresses()
    form = form_body(ProposalForm)
    proposal = _Proposal(form, _by_name(usecases.nics(sessions) if "nics" in usecases.can else ()))
    topology, etag = proposal.topology(), usecases.etag()
    try:
        done = usecases.up(topology, dry_run=True, sessions=sessions)
    except RefusedError as error:
        raise InputError([proposal.refused(line) for line in str(error).splitlines()]) from None
    rtts = [
        ProposedRtt(site=lane.name, rtt_ns=lane.rtt_ns, source=proposal.sources.get(lane.name, ""))
        for lane in topology.lanes
    ]
    return ProposalAnswer(
        summary=done.summary, changed=bool(done.steps), performed=False, steps=step_answers(done.steps),
        warnings=list(done.warnings), topology=loader.dumps(topology), etag=etag, rtts=rtts,
    )  # fmt: skip


def _by_name(rows: Sequence[NicRow]) -> dict[str, NicRow]:
    return {row.name: row for row in rows}
