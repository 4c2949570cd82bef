"""Whose name a change over the API has in the history."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from support.web_daemon import AUTHOR, TOKENS, House

from emulator.control.change_log import Author
from emulator.control.remote import USER_HEADER
from web.auth.guard import TRUSTED


def last(house: House) -> tuple[str, str]:
    """Who made the last change, and how."""
    author = house.appliance.history(1)[0].author
    assert (author.uid, author.pid) == (os.getuid(), os.getpid())
    return author.user, author.command


def set_rtt(client: FlaskClient, rtt: str, **headers: str) -> None:
    """A change of London."""
    assert client.patch("/api/lanes/london", json={"rtt": rtt}, headers=headers).status_code == 200


@pytest.mark.parametrize(("token", "name"), [(TOKENS.write, "token"), (TOKENS.operator, "token-operator")])
def test_a_client_without_a_name_is_its_token(up: House, token: str, name: str) -> None:
    set_rtt(up.someone(token), "90ms")
    assert last(up) == (name, "API, from 127.0.0.1")


@pytest.mark.parametrize(
    ("given", "shown"), [("ann", "ann"), ("Zoë Ø", "Zoë Ø"), ("  a\nb\x1b[2J ", "ab[2J"), ("x" * 100, "x" * 64)]
)
def test_a_client_says_its_users_name(up: House, given: str, shown: str) -> None:
    set_rtt(up.client, "90ms", **{USER_HEADER: quote(given)})
    assert last(up) == (shown, "API with token, from 127.0.0.1")


def test_a_name_opens_nothing(up: House) -> None:
    reader = up.someone(TOKENS.read)
    answer = reader.patch("/api/lanes/london", json={"rtt": "90ms"}, headers={USER_HEADER: "root"})
    assert answer.status_code == 403
    assert last(up)[0] == "token"


def test_whoever_logs_in_with_a_name_has_it_until_the_logout(up: House) -> None:
    client = up.someone()
    client.post("/login", data={"token": TOKENS.write, "name": " ann ", "next": "/"})
    with client.session_transaction() as session:
        csrf = session["csrf"]
    set_rtt(client, "90ms", **{"X-CSRF-Token": csrf, USER_HEADER: "somebody-else"})
    assert last(up) == ("ann", "web page with token, from 127.0.0.1")


def test_a_login_that_failed_keeps_the_name(up: House) -> None:
    page = up.someone().post("/login", data={"token": "guess", "name": '"><b>ann', "next": "/"}).text
    assert 'value="&#34;&gt;&lt;b&gt;ann"' in page


def test_over_the_unix_socket_it_is_the_daemons_user_or_the_name(up: House) -> None:
    client = up.someone()
    client.environ_base[TRUSTED] = "1"
    set_rtt(client, "90ms", **{USER_HEADER: "ann"})
    assert last(up) == ("ann", "API over the unix socket")


def test_what_no_client_asked_for_is_the_processs_own(up: House, tmp_path: Path) -> None:
    set_rtt(up.client, "90ms")
    up.appliance.set_lane(up.appliance.topology().lane("london").with_rtt(1))  # type: ignore[union-attr]
    assert up.appliance.history(1)[0].author == AUTHOR == Author("root", 0, 1, "test")


def test_each_request_of_a_thread_is_its_own_clients(up: House) -> None:
    set_rtt(up.client, "90ms", **{USER_HEADER: "ann"})
    assert up.client.post("/api/undo").status_code == 200
    assert last(up) == ("token", "API, from 127.0.0.1")
    missing = up.client.patch("/api/lanes/nowhere", json={"rtt": "90ms"}, headers={USER_HEADER: "ann"})
    assert missing.status_code == 404
    set_rtt(up.client, "91ms")
    assert last(up)[0] == "token"
