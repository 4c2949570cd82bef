"""Metrics of a host's connected routes: initcwnd and initrwnd, set and restored with `ip route change`.

Everything else in the route is said again with every change: leaving proto, scope or src out would rewrite it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from emulator.errors import MeasureError
from emulator.measure.process import Completed

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

    def change_argv(self, metrics: Metrics) -> list[str]:
        """The command that gives the route these metrics and changes nothing else."""
        same = [self.destination, "dev", self.device, "proto", "kernel", "scope", "link", "src", self.source]
        return ["ip", "route", "change", *same, *metrics.words()]


class Runner(Protocol):
    """A host that runs commands."""

    @property
    def interface(self) -> str:
        """The interface whose routes are meant."""

    def run(self, argv: list[str], timeout_s: float) -> Completed:
        """Run a program there."""


def parse(text: str, device: str) -> list[Route]:
    """The routes in what `ip -j route show dev DEVICE` printed (which leaves the device out). Raises MeasureError."""
    try:
        return [_route(entry, device) for entry in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"ip route answered something that cannot be read: {error}") from None


def _route(entry: dict[str, Any], device: str) -> Route:
    metrics = (entry.get("metrics") or [{}])[0]
    found = Metrics(metrics.get("initcwnd"), metrics.get("initrwnd"))
    return Route(entry["dst"], device, entry["prefsrc"], found)


def connected(host: Runner) -> list[Route]:
    """The host's connected routes over its interface."""
    show = ["ip", "-4", "-j", "route", "show", "dev", host.interface, "proto", "kernel", "scope", "link"]
    return parse(host.run(show, _TIMEOUT_S).checked().stdout, host.interface)


def change(host: Runner, route: Route, metrics: Metrics) -> None:
    """Give a route other metrics. Raises MeasureError when `ip` refuses."""
    host.run(route.change_argv(metrics), _TIMEOUT_S).checked()
