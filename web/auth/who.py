"""Who a request's changes belong to in the history: the name that the client gave, else its token.

The name is not checked: everybody with the token could send any. The token alone decides what a client may do.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from urllib.parse import unquote

from flask import Flask, g, request, session

from emulator.control.change_log import Author, acting, here
from emulator.control.remote import USER_HEADER
from web.auth.guard import TRUSTED
from web.auth.tokens import FILES

LONGEST_NAME = 64


def install(app: Flask) -> None:
    """Make the changes of every request those of its client."""
    app.before_request(_begin)
    app.teardown_request(_end)


def name_of(text: str) -> str:
    """A name as the history shows it: printable, without blanks around it, of limited length; "" for none."""
    return "".join(letter for letter in text if letter.isprintable()).strip()[:LONGEST_NAME]


def author() -> Author:
    """The client of this request."""
    page = g.get("by_session", False)
    name = session.get("name", "") if page else name_of(unquote(request.headers.get(USER_HEADER, "")))
    over = "web page" if page else "API"
    if request.environ.get(TRUSTED):
        return _by(name or here("").user, f"{over} over the unix socket")
    token = FILES.get(g.get("by_token") or "", "")
    with_token = f" with {token}" if name and token else ""
    return _by(name or token or "somebody", f"{over}{with_token}, from {request.remote_addr}")


def _by(user: str, command: str) -> Author:
    return Author(user, os.getuid(), os.getpid(), command)


def _begin() -> None:
    g.acting = ExitStack()
    g.acting.enter_context(acting(author()))


def _end(_: BaseException | None) -> None:
    if "acting" in g:
        g.acting.close()
