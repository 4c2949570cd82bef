"""Metrics of a host's connected routes: sets and restores initcwnd, initrwnd and window with `ip route change`.

Each change repeats all other attributes of the route: `ip` would reset an omitted proto, scope or src.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from emulator.errors import MeasureError
from emulator.hosts.host import Host

_TIMEOUT_S = 30.0


class Metrics(Struct, frozen=True):
    """A route's initial windows in segments, and the most bytes that a host offers; None keeps the kernel's default."""

    initcwnd: int | None = None
    initrwnd: int | None = None
    window: int | None = None

    def words(self) -> list[str]:
        """The metrics as arguments of `ip route`."""
        given = (("initcwnd", self.initcwnd), ("initrwnd", self.initrwnd), ("window", self.window))
        return [word for name, value in given if value is not None for word in (name, str(value))]


NONE = Metrics()


class Route(Struct, frozen=True):
    """A connected route with its metrics."""

    destination: str
    device: str
    source: str
    metrics: Metrics
    others: tuple[str, ...] = ()
    """The route's other attributes as arguments of `ip route`: its priority (NetworkManager sets one), other
    metrics."""

    def change_argv(self, metrics: Metrics) -> list[str]:
        """The command that gives the route these metrics and changes nothing else."""
        same = [self.destination, "dev", self.device, "proto", "kernel", "scope", "link", "src", self.source]
        return ["ip", "route", "change", *same, *self.others, *metrics.words()]


def parse(text: str, device: str) -> list[Route]:
    """Parse the output of `ip -j route show dev DEVICE` (which omits the device). Raises MeasureError."""
    try:
        return [_route(entry, device) for entry in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"cannot parse the output of ip route: {error}") from None


def _route(entry: dict[str, Any], device: str) -> Route:
    metrics = dict((entry.get("metrics") or [{}])[0])
    found = Metrics(*(metrics.pop(name, None) for name in Metrics.__struct_fields__))
    priority = {"metric": entry["metric"]} if "metric" in entry else {}
    others = tuple(str(word) for pair in (priority | metrics).items() for word in pair)
    return Route(entry["dst"], device, entry["prefsrc"], found, others)


def connected(host: Host) -> list[Route]:
    """The host's connected routes over its interface."""
    show = ["ip", "-4", "-j", "route", "show", "dev", host.interface, "proto", "kernel", "scope", "link"]
    return parse(host.run(show, _TIMEOUT_S).checked().stdout, host.interface)


def change(host: Host, route: Route, metrics: Metrics) -> None:
    """Give a route these metrics. Raises MeasureError when `ip` refuses."""
    host.run(route.change_argv(metrics), _TIMEOUT_S, as_root=True).checked()
