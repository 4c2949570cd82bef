"""Metrics of a host's connected routes: initcwnd and initrwnd, set and restored with `ip route change`.

Everything else in the route is said again with every change: leaving proto, scope or src out would rewrite it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from emulator.errors import MeasureError
from emulator.hosts.host import Host

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Metrics:
    """A route's first windows in segments; None leaves the kernel's own."""

    initcwnd: int | None = None
    initrwnd: int | None = None

    def words(self) -> list[str]:
        """As `ip route` takes them."""
        given = (("initcwnd", self.initcwnd), ("initrwnd", self.initrwnd))
        return [word for name, value in given if value is not None for word in (name, str(value))]


NONE = Metrics()


@dataclass(frozen=True)
class Route:
    """A connected route with its metrics."""

    destination: str
    device: str
    source: str
    metrics: Metrics
    others: tuple[str, ...] = ()
    """What else it has, as `ip route` takes it: its priority (NetworkManager sets one), other metrics."""

    def change_argv(self, metrics: Metrics) -> list[str]:
        """The command that gives the route these metrics and changes nothing else."""
        same = [self.destination, "dev", self.device, "proto", "kernel", "scope", "link", "src", self.source]
        return ["ip", "route", "change", *same, *self.others, *metrics.words()]


def parse(text: str, device: str) -> list[Route]:
    """The routes in what `ip -j route show dev DEVICE` printed (which leaves the device out). Raises MeasureError."""
    try:
        return [_route(entry, device) for entry in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"ip route answered something that cannot be read: {error}") from None


def _route(entry: dict[str, Any], device: str) -> Route:
    metrics = dict((entry.get("metrics") or [{}])[0])
    found = Metrics(metrics.pop("initcwnd", None), metrics.pop("initrwnd", None))
    priority = {"metric": entry["metric"]} if "metric" in entry else {}
    others = tuple(str(word) for pair in (priority | metrics).items() for word in pair)
    return Route(entry["dst"], device, entry["prefsrc"], found, others)


def connected(host: Host) -> list[Route]:
    """The host's connected routes over its interface."""
    show = ["ip", "-4", "-j", "route", "show", "dev", host.interface, "proto", "kernel", "scope", "link"]
    return parse(host.run(show, _TIMEOUT_S).checked().stdout, host.interface)


def change(host: Host, route: Route, metrics: Metrics) -> None:
    """Give a route other metrics. Raises MeasureError when `ip` refuses."""
    host.run(route.change_argv(metrics), _TIMEOUT_S, as_root=True).checked()
