"""Programs in runs: what a request may name, the shipped presets, and who may run commands where."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from flask import g
from pydantic import Field

from emulator.config import loader, shipped_topologies, yaml_source
from emulator.config.program_schema import INSTEAD, ProgramForm
from emulator.config.request_schema import RequestsForm
from emulator.errors import InputError
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.workload import Workload
from emulator.system import bounded_file
from emulator.units import format_duration, format_rate
from web.api.problems import Denied
from web.api.routing import EndpointTable
from web.api.schemas import Answer
from web.auth.tokens import FILES, OPERATOR
from web.context import here

table = EndpointTable()


class SettingAnswer(Answer):
    """One setting of a program: its key in `workload`, and an example as JSON."""

    key: str
    help: str
    example: Any


class PresetAnswer(Answer):
    """A shipped topology: the axes and the workload of its sweep as a request has them."""

    name: str
    kind: str = Field(description="what a cell runs: streams, program, requests or flows")
    axes: dict[str, str]
    workload: dict[str, Any] = Field(description="empty for streams")


class ProgramsAnswer(Answer):
    """The settings of a program in the order of the form, and the presets by name.

    `outside_lab`: this client may run programs outside the lab. `refused` is why it may run none at all, else empty;
    `packages_refused` is why it may add no packages to the lab.
    """

    settings: list[SettingAnswer]
    presets: list[PresetAnswer]
    outside_lab: bool
    refused: str = Field(description="why this client may run no program in a lab; empty when it may")
    packages_refused: str = Field(description="why this client may add no packages to the lab; empty when it may")


@table("GET", "/api/programs", ProgramsAnswer)
def programs() -> ProgramsAnswer:
    """What a run's `workload` may hold, and the runs that come with Longhaul, ready to start."""
    fields = {key: field for key, field in ProgramForm.model_fields.items() if key not in INSTEAD}
    settings = [
        SettingAnswer(key=key, help=str(field.description), example=example(key)) for key, field in fields.items()
    ]
    refused = refusal(in_lab=True)
    return ProgramsAnswer(
        settings=settings,
        presets=presets(),
        outside_lab=not refusal(in_lab=False),
        refused=refused,
        packages_refused=packages_refusal(),
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of a request's `workload`, complete in itself."""
    made = ProgramForm.model_json_schema()
    made.pop("$defs", None)
    made["properties"]["requests"] = RequestsForm.model_json_schema()
    return made


def example(key: str) -> Any:
    """An example of a setting."""
    return _first_example(schema()["properties"][key])


def _first_example(field: Mapping[str, Any]) -> Any:
    kinds = [field, *field.get("anyOf", ())]
    return next((kind["examples"][0] for kind in kinds if kind.get("examples")), "")


@cache
def presets() -> list[PresetAnswer]:
    """The shipped topologies that a run without lanes of its own can measure."""
    return [made for name in shipped_topologies.names() if (made := _preset(name)) is not None]


def _preset(name: str) -> PresetAnswer | None:
    path = shipped_topologies.shipped(name)
    tree: Any = yaml_source.read(bounded_file.read_text(path, bounded_file.TOPOLOGY), name).tree
    if "sweep" not in tree and not _is_plain(tree):
        return None
    sweep = tree.get("sweep", {})
    workload = sweep.pop("workload", {})
    axes = {key: ", ".join(map(str, value if isinstance(value, list) else [value])) for key, value in sweep.items()}
    lanes = loader.load(path).lanes
    if "rtt" not in axes:
        axes["rtt"] = ", ".join(map(format_duration, sorted({lane.rtt_ns for lane in lanes})))
    if "rate" not in axes and (rates := {lane.outbound.rate_bps for lane in lanes} - {None}):
        axes["rate"] = ", ".join(format_rate(rate) for rate in sorted(filter(None, rates)))
    said = {key: text for key, text in axes.items() if key != "lane"}
    return PresetAnswer(name=name, kind=_kind(workload), axes=said, workload=workload)


def _is_plain(tree: Mapping[str, Any]) -> bool:
    """Whether round-trip times and rates say all about the lanes: a run's cells have no other settings of theirs."""
    lanes = [tree.get("defaults", {}), *tree["lanes"].values()]
    return "schedule" not in tree and all(set(lane) <= {"rtt", "rate"} for lane in lanes)


def _kind(workload: Mapping[str, Any]) -> str:
    kinds = {"client": "program", "requests": "requests", "against": "flows", "pairs": "flows"}
    return next((kind for key, kind in kinds.items() if key in workload), "streams")


def check_allowed(workload: Workload, *, in_lab: bool) -> None:
    """Raise Denied when the workload is a program that this client may not run there, or not with its packages.

    Raises InputError for packages outside the lab.
    """
    if not isinstance(workload, ProgramWorkload):
        return
    packages = workload.program.packages
    if packages and (reason := packages_refusal()):
        raise Denied(403, reason)
    if reason := refusal(in_lab=in_lab):
        raise Denied(403, reason)
    if packages and not in_lab:
        text = "only a lab gets packages: set in_lab, or install them on the hosts and leave this empty"
        raise InputError.single(text, "request", "workload.packages")


def packages_refusal() -> str:
    """Why this client may add no packages to the lab; empty when it may.

    A layer of packages is downloaded and unpacked on this machine.
    """
    if not here().lab:
        return (
            "this server (the demo, or one inside a lab) builds no labs, so it can add no packages: use longhaul sweep "
            "--in-lab, or longhaul serve on the machine itself"
        )
    if g.role == OPERATOR:
        return ""
    return (
        "packages for the lab are downloaded and unpacked on this machine: log in with the token in the file "
        f"{FILES[OPERATOR]} of the state folder"
    )


def refusal(*, in_lab: bool) -> str:
    """Why this client may run no program there; empty when it may.

    Outside the lab a command runs as root of this machine, or over SSH on others. In the lab Landlock keeps it from
    the machine's files.
    """
    daemon = here()
    if daemon.demo:
        return "the demo has no login, so it runs no programs: use longhaul sweep --in-lab, or longhaul serve"
    if g.role == OPERATOR:
        return ""
    if not in_lab:
        return (
            f"outside the lab a program runs as root: log in with the token in the file {FILES[OPERATOR]} of the state "
            "folder, or set in_lab"
        )
    if not daemon.confines():
        return (
            "this machine's kernel has no Landlock, so the lab does not keep a program from its files: log in with the "
            f"token in the file {FILES[OPERATOR]} of the state folder"
        )
    return ""
