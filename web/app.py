"""The Flask application: puts endpoints, pages, access control and failures together."""

from __future__ import annotations

from flask import Flask

from web import pages
from web.api import (
    cell_over_time,
    changed,
    lane_set,
    lanes,
    live,
    matrix,
    places,
    problems,
    programs,
    proposal,
    recordings,
    schedule,
)
from web.auth import who
from web.auth.guard import Guard
from web.context import ServerContext
from web.service import OPTIONAL

LARGEST_BODY_BYTES = 256 * 1024
TABLES = tuple(
    one.table
    for one in (
        lanes,
        changed,
        lane_set,
        proposal,
        schedule,
        recordings,
        matrix,
        live,
        cell_over_time,
        programs,
        places,
    )
)
"""The tables of endpoints, in the order of the documentation."""


def create_app(daemon: ServerContext, guard: Guard) -> Flask:
    """The application over a daemon. A use case that the appliance lacks has no endpoint."""
    app = Flask(__name__, static_folder="static", template_folder="templates")
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_BODY_BYTES, SEND_FILE_MAX_AGE_DEFAULT=0)
    app.url_map.merge_slashes = False
    app.extensions["longhaul"] = daemon
    problems.install(app)
    guard.install(app)
    who.install(app)
    left_out = frozenset(OPTIONAL) - daemon.usecases.can
    for table in TABLES:
        table.install(app, left_out)
    pages.install(app, guard)
    return app
