"""The OpenAPI 3.1 document, built from the table of endpoints and the models of the responses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from emulator import __version__
from web.api.problems import MEDIA_TYPE
from web.api.routing import JSON, YAML, Endpoint
from web.api.schemas import ProblemAnswer
from web.auth.guard import OPEN

DESCRIPTION = (
    "Longhaul's lanes over HTTP. Send a token as `Authorization: Bearer TOKEN` (the file `token` of the state folder), "
    "or use the unix socket. Every failure is an RFC 9457 problem that lists all mistakes with their paths. A change "
    "is applied completely or not at all; the response holds the plan that was applied."
)
PROBLEMS = {
    400: "The server cannot parse the request",
    401: "Not logged in",
    403: "Not allowed",
    404: "Not found",
    409: "Refused: a part of the machine that Longhaul must not touch is in the way",
    412: "Changed by another client (If-Match)",
    413: "The body is too large",
    415: "The endpoint does not accept this media type",
    421: "The request's host name is unknown here",
    422: "Invalid input, with every mistake",
    429: "Too many wrong tokens",
    503: "Not available on this machine, or too many clients",
}
PARSED = (JSON, YAML)
ALWAYS = (400, 401, 403, 421, 422, 429)


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Build the whole document."""
    rows = list(endpoints)
    models = {row.answer for row in rows if isinstance(row.answer, type)} | {ProblemAnswer}
    asked: list[tuple[type[BaseModel], Any]] = [(m, "serialization") for m in sorted(models, key=lambda m: m.__name__)]
    asked += [(row.body, "validation") for row in rows if isinstance(row.body, type)]
    schemas = models_json_schema(asked, ref_template="#/components/schemas/{model}")[1].get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", row.path), {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Longhaul", "version": __version__, "description": DESCRIPTION, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(row: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": row.summary.splitlines()[0],
        "operationId": re.sub(r"\W+", "_", f"{row.method} {row.path}").strip("_").lower(),
        "parameters": _parameters(row),
        "responses": {str(row.status): _success(row)} | {str(s): _failure(s) for s in _failures(row)},
    }
    if row.body is not None:
        body = _reference(row.body) if isinstance(row.body, type) else row.body
        content = {kind: {"schema": body} for kind in row.body_types}
        operation["requestBody"] = {"required": True, "content": content}
    if row.role == OPEN:
        operation["security"] = []
    return operation


def _parameters(row: Endpoint) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"<(?:\w+:)?(\w+)>", row.path)
    ]
    found += [
        {"name": name, "in": "query", "required": False, "schema": query.schema, "description": query.text}
        for name, query in row.query.items()
    ]
    if row.etag and row.method != "GET":
        text = "the ETag of the state that the change is based on; 412 when the state is different by now"
        found.append({"name": "If-Match", "in": "header", "schema": {"type": "string"}, "description": text})
    return found


def _success(row: Endpoint) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Success."}
    if isinstance(row.answer, type):
        answer["content"] = {JSON: {"schema": _reference(row.answer)}}
    elif kinds := [kind for kind in row.answer if kind]:
        answer["content"] = {kind: {"schema": {} if kind in PARSED else {"type": "string"}} for kind in kinds}
    if row.etag:
        answer["headers"] = {"ETag": {"schema": {"type": "string"}}}
    return answer


def _failures(row: Endpoint) -> list[int]:
    of_bodies = (413, 415) if row.body is not None else ()
    of_matches = (412,) if row.etag and row.method != "GET" else ()
    of_paths = (404,) if "<" in row.path else ()
    return sorted({*ALWAYS, *of_bodies, *of_matches, *of_paths, *row.problems})


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _failure(status: int) -> dict[str, Any]:
    return {"description": PROBLEMS[status], "content": {MEDIA_TYPE: {"schema": _reference(ProblemAnswer)}}}
