"""The pages for people. Templates hold the static structure; scripts fetch all changing data from the API."""

from __future__ import annotations

import re
import secrets
from urllib.parse import quote

from flask import Flask, Response, g, redirect, render_template, request, session
from werkzeug.wrappers import Response as AnyResponse

from emulator import __version__
from emulator.config import loader
from web.api import problems
from web.api.problems import Denied
from web.api.routing import View
from web.auth import who
from web.auth.guard import OPEN, Guard
from web.auth.tokens import READ, WRITE
from web.context import here

PAGES = {
    "/": ("lanes", "Lanes", ""),
    "/matrix": ("matrix", "Matrix", ""),
    "/schedule": ("schedule", "Schedule", ""),
    "/recordings": ("recordings", "Recordings", ""),
    "/runs": ("runs", "Test runs", ""),
    "/topology": ("topology", "Topology", ""),
    "/history": ("history", "History", "history"),
    "/nics": ("nics", "NICs", "nics"),
    "/setup": ("setup", "Set up", "nics"),
    "/certificates": ("certificates", "Certificates", ""),
    "/docs": ("docs", "API", ""),
}
"""By path: the template and script, the name in the menu, and the use case that it needs."""

UNLISTED = ("/setup",)
"""Pages that others lead to."""

API = ("/api/", "/metrics", "/healthz", "/static/")


def install(app: Flask, guard: Guard) -> None:
    """Route the pages, login and logout."""
    can = app.extensions["longhaul"].usecases.can
    shown = {path: page for path, page in PAGES.items() if not page[2] or page[2] in can}
    for path, (name, title, _) in shown.items():
        app.add_url_rule(path, f"page_{name}", _page(name, title, shown, guard))
    login, logout = _login(guard), _logout(guard)
    app.add_url_rule("/login", "login", login, methods=["GET", "POST"])
    app.add_url_rule("/logout", "logout", logout, methods=["POST"])
    app.register_error_handler(Denied, _denied)


def _page(name: str, title: str, shown: dict[str, tuple[str, str, str]], guard: Guard) -> View:
    def page() -> str:
        if not guard.login and "csrf" not in session:
            guard.start_session(WRITE)
        daemon = here()
        return render_template(
            f"{name}.html",
            title=title,
            menu=[(path, text) for path, (_, text, _) in shown.items() if path not in UNLISTED],
            script=name,
            role=g.role,
            can=sorted(daemon.usecases.can),
            lab=daemon.lab,
            demo=daemon.demo,
            login=guard.login,
            csrf=session.get("csrf", ""),
            version=__version__,
            schema=loader.json_schema() if name == "topology" else {},
        )

    page.role = READ  # type: ignore[attr-defined]
    return page


def _login(guard: Guard) -> View:
    def login() -> AnyResponse | tuple[str, int] | str:
        if request.method == "GET":
            return render_template(
                "login.html", title="Log in", wrong="", name="", next=_inside(request.args.get("next", "/"))
            )
        given, goal = request.form.get("token", "").strip(), _inside(request.form.get("next", "/"))
        name = who.name_of(request.form.get("name", ""))
        try:
            role = guard.login_with(given)
        except Denied as denied:
            page = render_template("login.html", title="Log in", wrong=str(denied), name=name, next=goal)
            return Response(page, 429, headers={"Retry-After": str(denied.retry_after_s)})
        if role is None:
            wrong = "This token is unknown."
            return render_template("login.html", title="Log in", wrong=wrong, name=name, next=goal), 401
        guard.start_session(role)
        session["name"] = name
        return redirect(goal, 303)

    login.role = OPEN  # type: ignore[attr-defined]
    return login


def _logout(guard: Guard) -> View:
    def logout() -> AnyResponse:
        guard.check_csrf(request.form.get("csrf", secrets.token_hex()))
        session.clear()
        return redirect("/login", 303)

    logout.role = OPEN  # type: ignore[attr-defined]
    return logout


def _denied(denied: Denied) -> AnyResponse | Response:
    """Redirect people who are not logged in to the login page; programs get the error."""
    if denied.status == 401 and request.method == "GET" and not request.path.startswith(API):
        asked = request.full_path if request.query_string else request.path
        return redirect(f"/login?next={quote(asked)}", 303)
    return problems.of(denied)


def _inside(asked: str) -> str:
    """The page to continue at, with its query and fragment; never another site's address, whatever was sent."""
    path = re.split("[?#]", asked, maxsplit=1)[0]
    return asked if path in PAGES else "/"
