"""The root qdisc of a host's interface, which a TCP profile's `qdisc` replaces during a measurement.

Only the kernel's own default is replaced: it comes back by itself when the other qdisc is deleted. What somebody
configured stays, for nobody could restore it.
"""

from __future__ import annotations

import json

from emulator.errors import MeasureError, MissingError, RefusedError
from emulator.hosts.host import Host

HANDLE = "77f0:"
"""Ours alone: the kernel numbers qdiscs from 8001: on, and its defaults have the handle 0:."""
_TIMEOUT_S = 30.0
_DEFAULT = "0:"
_PATH = "PATH=$PATH:/usr/sbin:/sbin; "
"""Users other than root often lack tc's folder."""
_TC = ("sh", "-c", f'{_PATH}exec tc "$@"', "tc")
_TAKE_OFF = f'{_PATH}tc qdisc show dev "$1" root | grep -q " $2 root " || exit 0; exec tc qdisc del dev "$1" root'


def check(host: Host) -> None:
    """Raises RefusedError when the host's root qdisc is a configured one, MeasureError when nobody can tell."""
    show = [*_TC, "-j", "qdisc", "show", "dev", host.interface, "root"]
    said = host.run(show, _TIMEOUT_S).checked().stdout
    try:
        kind, handle = next((one["kind"], one["handle"]) for one in json.loads(said or "[]") if one.get("root"))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise MeasureError(f"{host.name}: cannot parse the output of tc qdisc: {error!r}") from None
    if handle != _DEFAULT:
        raise RefusedError(
            f"{host.name}: {host.interface} has the qdisc {kind} {handle}, which nobody could restore after the "
            f"measurement: tc qdisc del dev {host.interface} root, or leave qdisc out of the TCP profile"
        )


def put_on(host: Host, kind: str) -> None:
    """Make this kind the root qdisc. Raises MissingError when the host's kernel lacks it."""
    replace = [*_TC, "qdisc", "replace", "dev", host.interface, "root", "handle", HANDLE, kind]
    done = host.run(replace, _TIMEOUT_S, as_root=True)
    if done.exit_code:
        why = (done.stderr.strip() or "no reason given").splitlines()[0].rstrip(".")
        raise MissingError(
            f"{host.name}: {host.interface} cannot have the qdisc {kind}: {why}: modprobe sch_{kind} there, or leave "
            "qdisc out of the TCP profile"
        )


def take_off_argv(interface: str) -> list[str]:
    """The command that brings the kernel's default back, and changes nothing where it never left."""
    return ["sh", "-c", _TAKE_OFF, "take-off", interface, HANDLE]
