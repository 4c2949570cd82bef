"""Access control: host, origin, token or session, role, CSRF; and the headers that every answer carries."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from flask import Flask, Response, g, request, session

from web.api.problems import Denied
from web.auth.throttle import Throttle
from web.auth.tokens import MAY_CHANGE, READ, WRITE, Tokens

TRUSTED = "longhaul.trusted"
"""Set in the WSGI environment of requests over the unix socket: the socket file's mode has authorized them."""

SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = "open"
SESSION_S = 12 * 3600
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass
class Guard:
    """`hosts` are the names that clients may use besides localhost and IP addresses. `https`: a TLS proxy is in front.

    `login` False admits everybody who can reach the server: for the demo, which cannot change the machine.
    """

    tokens: Tokens
    hosts: frozenset[str] = frozenset()
    https: bool = False
    login: bool = True
    clock: Callable[[], float] = time.monotonic
    throttle: Throttle = field(default_factory=Throttle)

    def __post_init__(self) -> None:
        """Browsers send host names in lower case; a dot at their end means the same host."""
        self.hosts = frozenset(name.lower().removesuffix(".") for name in self.hosts)

    def install(self, app: Flask) -> None:
        """Check every request of the application."""
        app.secret_key = self.tokens.session_key
        app.config.update(
            SESSION_COOKIE_NAME=self.tokens.cookie, SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Strict",
            SESSION_COOKIE_SECURE=self.https, PERMANENT_SESSION_LIFETIME=SESSION_S,
            # An answer on its way to another page would set the cookie again after the logout.
            SESSION_REFRESH_EACH_REQUEST=False,
        )  # fmt: skip
        app.before_request(self.check)
        app.after_request(self.dress)

    def check(self) -> None:
        """Let the request pass or raise Denied."""
        trusted = bool(request.environ.get(TRUSTED))
        if not trusted:
            self._check_host()
            self._check_origin()
        g.role, g.by_session = self._identify(trusted)
        g.by_token = g.role if self.login and not trusted else None
        needed = _needed_role()
        if needed == OPEN:
            return
        if g.role is None:
            raise Denied(401, "log in, or send the token as Authorization: Bearer TOKEN")
        if needed == WRITE and g.role not in MAY_CHANGE:
            raise Denied(403, "this token is read-only: use the token that may change things")
        if g.by_session and request.method not in SAFE:
            self.check_csrf(request.headers.get("X-CSRF-Token", ""))

    def check_csrf(self, given: str) -> None:
        """Compare the CSRF token of a form or a script with the session's. Raises Denied."""
        if not hmac.compare_digest(given.encode(), str(session.get("csrf", secrets.token_hex())).encode()):
            raise Denied(403, "the page is too old, or another site sent the request: reload the page")

    def login_with(self, token: str) -> str | None:
        """The role of a token; None for a wrong one. Raises Denied for a wrong one after too many of them.

        A right token always passes: clients behind one proxy share an address, and nobody may lock others out.
        """
        role = self.tokens.role_of(token)
        if role is not None:
            return role
        address, now_s = request.remote_addr or "", self.clock()
        if wait_s := self.throttle.wait_s(address, now_s):
            raise Denied(429, f"too many wrong tokens: send the right one, or wait {wait_s} s", wait_s)
        self.throttle.failed(address, now_s)
        return None

    def start_session(self, role: str) -> None:
        """Start a session: from now on a cookie identifies the browser."""
        session.clear()
        session.permanent = True
        session.update(role=role, csrf=secrets.token_urlsafe(32))

    def dress(self, response: Response) -> Response:
        """Add the security headers; caches keep no answer of the API."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if self.https:
            response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _identify(self, trusted: bool) -> tuple[str | None, bool]:
        """The role of the client, and whether a session's cookie says so."""
        if trusted or not self.login:
            return WRITE, not trusted and "csrf" in session
        header = request.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            role = self.login_with(token.strip()) if scheme.lower() == "bearer" else None
            if role is None:
                raise Denied(401, "this token is unknown: the file 'token' in the state folder holds it")
            return role, False
        role = session.get("role")
        return (role, True) if role in (READ, *MAY_CHANGE) else (None, False)

    def _check_host(self) -> None:
        """Refuse an unknown host name: an attacker may have made it point to this server (DNS rebinding)."""
        name = (_parts(f"//{request.host}").hostname or "").removesuffix(".")
        if name != "localhost" and name not in self.hosts and not _is_address(name):
            raise Denied(421, "this server does not answer to this name: start longhaul serve with --host NAME")

    def _check_origin(self) -> None:
        """Refuse requests that a page of another site makes the browser send."""
        origin = request.headers.get("Origin")
        if origin is not None and _parts(origin).netloc != request.host:
            raise Denied(403, "a page of another site sent this request")
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method not in SAFE:
            raise Denied(403, "a page of another site sent this request")


def _parts(url: str) -> SplitResult:
    """The parts of a URL; all are empty when it cannot be parsed, such as brackets that do not match."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _needed_role() -> str:
    """The role that the view requires: write by default; any known client may learn that a path does not exist."""
    from flask import current_app

    if request.endpoint is None:
        return READ
    if request.endpoint == "static":
        return OPEN
    return str(getattr(current_app.view_functions[request.endpoint], "role", WRITE))
