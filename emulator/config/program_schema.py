"""The schema of a sweep's program (`sweep: workload:`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from emulator import units
from emulator.config.against_schema import Contests, Controls
from emulator.config.field_types import Count, Duration, Word, example_schema, text_field
from emulator.config.request_schema import RequestsForm
from emulator.config.schema import Form
from emulator.model import debian_packages
from emulator.model.program import DEFAULT_RUNS, DEFAULT_TIMEOUT_NS, Ready

Command = Annotated[str, text_field(str, "a command")]
ReadyField = Annotated[Ready, text_field(Ready.parse, "a text such as tcp:873"), example_schema("tcp:873")]
Size = Annotated[int, text_field(units.parse_size_bytes, "a size"), example_schema("256MiB")]


def _names(value: object) -> tuple[str, ...]:
    """One name, or a list of names."""
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("this is neither a name nor a list of names: use a file's name such as log.txt")
    return tuple(names)


def _packages(value: object) -> tuple[str, ...]:
    """Names with commas between them, or a list of names."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("this is no list of Debian packages: use [rsync, nginx]")
    return debian_packages.checked(name.strip() for name in names)


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("this is no mapping of names to texts: use NAME: TEXT")
    return value


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_names),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [["client.out", "log/*"]]}),
]
Packages = Annotated[
    tuple[str, ...],
    BeforeValidator(_packages),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [["rsync", "nginx"]]}),
]
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]


def _texts_schema(name: str, text: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "examples": [{name: text}]})


_DEFAULT_TIMEOUT = units.format_duration(DEFAULT_TIMEOUT_NS)


INSTEAD = ("requests", "against", "pairs")
"""The keys of what runs instead of a program."""


class ProgramForm(Form):
    """A program that every cell runs instead of streams: a server at one end of the lane, a client at the other."""

    client: Annotated[Command, example_schema("curl -so page http://{server}/page")] | None = Field(
        default=None, description="the command that is measured, from its start to its end"
    )
    server: Annotated[Command, example_schema("exec python3 -m http.server 80")] | None = Field(
        default=None, description="the command of the other end; it stays in the foreground"
    )
    ready: ReadyField | None = Field(
        default=None, description="when the server is ready: tcp:PORT, file:PATH, output:REGEX or after:TIME"
    )
    prepare: Annotated[Command, example_schema("head -c 4MiB /dev/zero > page")] | None = Field(
        default=None, description="runs once before the server, in the server's folder"
    )
    prepare_client: Annotated[Command, example_schema("mkdir copy")] | None = Field(
        default=None, description="runs once, in the client's folder"
    )
    bytes: Size | None = Field(
        default=None, description="the payload that the program must carry; default: what TCP carried"
    )
    repeat: Annotated[Count, example_schema("5", "integer")] | None = Field(
        default=None, description=f"runs of the client; default: {DEFAULT_RUNS}"
    )
    files: Annotated[Texts, _texts_schema("greeting.txt", "hello")] | None = Field(
        default=None, description="files that both folders get, each with its text"
    )
    keep: Names | None = Field(default=None, description="files of both ends that the run folder gets")
    environment: Annotated[Texts, _texts_schema("PGUSER", "postgres")] | None = Field(
        default=None, description="variables of all commands"
    )
    user: Annotated[Word, example_schema("nobody")] | None = Field(
        default=None, description="the user that runs all commands; default: root"
    )
    timeout: Annotated[Duration, example_schema("2min")] | None = Field(
        default=None, description=f"the longest time of a client's run; default: {_DEFAULT_TIMEOUT}"
    )
    name: Annotated[Word, example_schema("page")] | None = Field(
        default=None, description="its name in tables; default: the client's first word"
    )
    packages: Packages | None = Field(
        default=None, description="Debian packages that the programs need on top of the lab's image; only for the lab"
    )
    requests: RequestsForm | None = Field(
        default=None, description="requests and answers instead of a program; the only key then"
    )
    against: Contests | None = Field(
        default=None, description="groups of flows that share the lane, such as cubic:1,bbr:1, or a list of such texts"
    )
    pairs: Controls | None = Field(
        default=None, description="congestion controls, of which every pair shares the lane, one flow each"
    )


def settings(form: ProgramForm) -> dict[str, Any]:
    """The given settings, by the field of `Program`."""
    given = {key: value for key, value in form if value is not None and key not in INSTEAD}
    if "timeout" in given:
        given["timeout_ns"] = given.pop("timeout")
    return given
