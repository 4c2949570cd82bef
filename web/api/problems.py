"""Failures as RFC 9457 problem details, with every mistake and its path."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from emulator.errors import InputError, LonghaulError, Mistake
from web.api.schemas import MistakeAnswer, ProblemAnswer

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("longhaul.web")


class Conflict(LonghaulError):
    """If-Match names a state that is no longer current."""

    exit_code = 3
    http_status = 412


class Denied(LonghaulError):
    """The request is denied: 401 not logged in, 403 not allowed, 421 wrong host, 429 too many failures."""

    def __init__(self, status: int, text: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.status, self.retry_after_s = status, retry_after_s


def problem(status: int, title: str, detail: str, mistakes: Sequence[Mistake] = ()) -> Response:
    """One failure as a response."""
    answer = ProblemAnswer(
        type=f"urn:longhaul:problem:{title.lower().replace(' ', '-')}",
        title=title,
        status=status,
        detail=detail,
        mistakes=[MistakeAnswer(where=m.where, path=m.path, text=m.text) for m in mistakes],
    )
    return Response(json.dumps(answer.model_dump()), status, content_type=MEDIA_TYPE)


TITLES = {
    401: "Not logged in",
    403: "Not allowed",
    409: "Refused",
    412: "Changed by another client",
    421: "Wrong host",
    422: "Invalid input",
    429: "Too many failures",
    503: "Missing",
    504: "Too slow",
}


def of(error: Exception) -> Response:
    """The response for any exception that ended a request."""
    if isinstance(error, Denied):
        answer = problem(error.status, TITLES[error.status], str(error))
        if error.status == 401:
            answer.headers["WWW-Authenticate"] = 'Bearer realm="longhaul"'
        if error.retry_after_s is not None:
            answer.headers["Retry-After"] = str(error.retry_after_s)
        return answer
    if isinstance(error, LonghaulError):
        mistakes = error.mistakes if isinstance(error, InputError) else ()
        title = TITLES.get(error.http_status, type(error).__name__.removesuffix("Error") + " failed")
        return problem(error.http_status, title, str(error), mistakes)
    if isinstance(error, HTTPException):
        answer = problem(error.code or 500, error.name, error.description or error.name)
        answer.headers.extend(
            (k, v) for k, v in error.get_headers() if k.lower() not in ("content-type", "content-length")
        )
        return answer
    log.error("a request failed with an unexpected error", exc_info=error)
    return problem(500, "Bug", f"{type(error).__name__}: this is a bug in Longhaul; its log shows where")


def install(app: Flask) -> None:
    """Make the application answer every failure with problem details."""
    app.register_error_handler(Exception, of)
