"""The table of endpoints. Routing, roles and the OpenAPI document all use its one description of each endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, get_args

from flask import Flask, Response, current_app, request
from msgspec import Struct, field
from pydantic import BaseModel, TypeAdapter, ValidationError

from emulator import units
from emulator.config import json_text, loader, old_words, yaml_source
from emulator.control.intent_store import LONGEST_CONFIRM_S, SHORTEST_CONFIRM_S
from emulator.errors import InputError, Mistake
from web.auth.tokens import READ, WRITE

JSON = "application/json"
YAML = "application/yaml"
View = Callable[..., Any]
Schema = Mapping[str, Any]


class Query(Struct, frozen=True):
    """One query parameter: its parser and its JSON Schema."""

    read: Callable[[str], Any]
    schema: Schema
    text: str


def flag(text: str) -> bool:
    """Parse a switch. Raises ValueError."""
    if text not in ("0", "1"):
        raise ValueError(f"{text!r} is not a flag: use 0 or 1")
    return text == "1"


def _seconds(text: str) -> float:
    seconds = units.parse_duration_ns(text) / 1e9
    if not SHORTEST_CONFIRM_S <= seconds <= LONGEST_CONFIRM_S:
        raise ValueError(f"{text!r} is outside the range 1s to 24h")
    return seconds


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers between two bounds."""

    def read(text: str) -> int:
        number = units.parse_count(text)
        if not low <= number <= high:
            raise ValueError(f"{text!r} is outside the range {low} to {high}")
        return number

    return read


DRY_RUN = Query(flag, {"type": "string", "enum": ["0", "1"]}, "1: only make the plan")
CONFIRM = Query(_seconds, {"type": "string", "examples": ["60s"]}, "revert the change after this time unless confirmed")


class Endpoint(Struct, frozen=True):
    """One method of one path. `answer` is a model, or the media types of an answer that has no model."""

    method: str
    path: str
    summary: str
    answer: type[BaseModel] | tuple[str, ...]
    role: str
    status: int = 200
    body: Schema | type[BaseModel] | None = None
    body_types: tuple[str, ...] = (JSON,)
    query: Mapping[str, Query] = field(default_factory=dict)
    etag: bool = False
    problems: tuple[int, ...] = ()


class EndpointTable:
    """Collects the endpoints and routes them."""

    def __init__(self) -> None:
        self.rows: list[tuple[Endpoint, View]] = []

    def __call__(
        self,
        method: str,
        path: str,
        answer: type[BaseModel] | str | tuple[str, ...],
        *,
        role: str | None = None,
        **said: Any,
    ) -> Callable[[View], View]:
        """A decorator: the view's docstring is the summary; its arguments are those of the path and the query."""

        def keep(view: View) -> View:
            needed = role or (READ if method == "GET" else WRITE)
            summary = (view.__doc__ or "").strip()
            kinds = (answer,) if isinstance(answer, str) else answer
            self.rows.append((Endpoint(method, path, summary, kinds, needed, **said), view))
            return view

        return keep

    def install(self, app: Flask, left_out: frozenset[str] = frozenset()) -> None:
        """Route all views but those in `left_out`; app.extensions["endpoints"] lists the routed ones."""
        for endpoint, view in self.rows:
            if view.__name__ in left_out:
                continue
            runner = _runner(endpoint, view)
            app.add_url_rule(endpoint.path, view.__name__, runner, methods=[endpoint.method])
            app.extensions.setdefault("endpoints", []).append(endpoint)


def _runner(endpoint: Endpoint, view: View) -> View:
    def run(**of_path: str) -> Response:
        answer = view(**of_path, **_read_query(endpoint.query))
        if isinstance(answer, Response):
            return answer
        text = answer.model_dump_json() if isinstance(answer, BaseModel) else answer
        kind = JSON if isinstance(endpoint.answer, type) else endpoint.answer[0]
        return current_app.response_class(text, endpoint.status, content_type=kind)

    run.role = endpoint.role  # type: ignore[attr-defined]
    return run


def _read_query(known: Mapping[str, Query]) -> dict[str, Any]:
    """Parse the query parameters. Raises InputError with every mistake in them."""
    values: dict[str, Any] = {}
    mistakes = []
    for name in request.args:
        given = request.args.getlist(name)
        try:
            if name not in known:
                raise ValueError(f"unknown parameter; the parameters are {', '.join(known) or 'none'}")
            if len(given) > 1:
                raise ValueError("given twice")
            values[name] = known[name].read(given[0])
        except ValueError as error:
            mistakes.append(Mistake("query", name, str(error)))
    if mistakes:
        raise InputError(mistakes)
    return values


def json_body() -> Any:
    """The request's body as JSON. Raises InputError; Flask raises 415 for another media type."""
    if request.mimetype != JSON:
        from werkzeug.exceptions import UnsupportedMediaType

        raise UnsupportedMediaType(f"send the body as {JSON}")
    return json_text.read(request.get_data(), "request")


def form_body(
    form: type[BaseModel], words: Mapping[str, str] | None = None, hints: list[str] | None = None,
    also: Callable[[Any, Set[str]], list[Mistake]] = lambda *_: [],
) -> Any:  # fmt: skip
    """The body as a form of texts and lists of texts. Raises InputError with every mistake.

    `words` are old names of keys, with their new ones; what is said of them goes to `hints`. `also` returns the
    mistakes between fields: it takes the body as texts, and the paths of what is wrong by itself.
    """
    source = yaml_source.of_json(json_body(), "request")
    if words and isinstance(source.tree, dict):
        source.tree = old_words.rename(source, source.tree, (), words)
    if hints is not None:
        hints += source.hints
    source.raise_mistakes()
    value, found = None, list[Mistake]()
    try:
        value = TypeAdapter(form).validate_python(source.tree)
    except ValidationError as invalid:
        found = [
            Mistake("request", ".".join(map(str, one["loc"])), _words(one, form)) for one in invalid.errors()
        ]  # fmt: skip
    if found := [*found, *also(source.tree, {one.path for one in found})]:
        raise InputError(found)
    return value


def _words(error: Any, form: type[BaseModel]) -> str:
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "extra_forbidden":
            fields = _form_at(form, error["loc"][:-1]).model_fields
            return f"unknown key; the keys are {', '.join(one.alias or name for name, one in fields.items())}"
        case "missing":
            return "is missing"
        case _:
            return loader.not_a_mapping(error["input"]) if error["loc"] else str(error["msg"])


def _form_at(form: type[BaseModel], path: Sequence[int | str]) -> type[BaseModel]:
    """The form of a field that is a form itself, or may be absent."""
    for key in path:
        if isinstance(key, int):  # an item of a list, whose form was the list's
            continue
        kinds = get_args(form.model_fields[str(key)].annotation)
        form = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    return form
