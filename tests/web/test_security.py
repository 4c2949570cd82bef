"""Who may ask what: every line of the security list, tried."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from itsdangerous import TimestampSigner
from support.folders import ROOT
from support.web_daemon import STAR, TOKENS, Clock, House

from emulator.cli.serve import serve
from web import server
from web.app import create_app
from web.auth import tokens
from web.auth.guard import Guard
from web.auth.throttle import Throttle


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with the founding star up."""
    made = House(tmp_path)
    made.up()
    return made


def log_in(house: House, token: str = TOKENS.write) -> tuple[FlaskClient, str]:
    """A browser that has logged in, and its CSRF token as the page tells it."""
    browser = house.someone()
    assert browser.post("/login", data={"token": token}).status_code == 303
    found = re.search(r'name="csrf" content="([^"]+)"', browser.get("/").text)
    assert found
    return browser, found[1]


def test_loopback_is_the_default() -> None:
    listen = next(p.default for p in serve.params if p.name == "listen")
    assert listen == "127.0.0.1:8642"
    assert "127.0.0.1:8642" in CliRunner().invoke(serve, ["--help"]).output


@pytest.mark.parametrize(("listen", "safe"), [("127.0.0.1:1", True), ("[::1]:1", True), ("0.0.0.0:1", False)])
def test_what_is_loopback(listen: str, safe: bool) -> None:
    assert server.is_loopback(listen) is safe


def test_tokens_are_made_once_long_different_and_private(tmp_path: Path) -> None:
    made = tokens.load(tmp_path / "state")
    assert tokens.load(tmp_path / "state") == made
    every = (made.write, made.read, made.operator)
    assert len(set(every)) == 3
    assert min(map(len, every)) >= 43  # 256 bits
    for name in tokens.FILES.values():
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"\xff" * 43, b"\0" * 43])
def test_a_spoilt_token_is_replaced_and_opens_nothing(tmp_path: Path, content: bytes) -> None:
    """An empty one is what a kill or a full disk leaves between creating the file and writing it."""
    made = tokens.load(tmp_path)
    (tmp_path / "token").write_bytes(content)
    again = tokens.load(tmp_path)
    assert again.role_of(content.decode("latin-1").strip()) is None
    assert again.write not in ("", made.write)
    assert (tmp_path / "token.spoilt").read_bytes() == content
    assert (again.read, tokens.load(tmp_path)) == (made.read, again)


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(tokens.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert TOKENS.role_of("may-write") == "write"
    assert TOKENS.role_of("nonsense ä") is None
    assert len(compared) == 6  # all, whatever the first said


def endpoints(house: House) -> list[tuple[str, str]]:
    """Every method and path that is not open to all."""
    is_open = {"login", "logout", "static", "openapi_document", "healthz"}
    return [
        (method, re.sub(r"<[^>]+>", "x", rule.rule))
        for rule in house.app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
        if rule.endpoint not in is_open
    ]


def test_without_a_token_nothing_is_told_or_done(house: House) -> None:
    tried = endpoints(house)
    assert len(tried) >= 25
    done = len(house.kernel.log)
    for method, path in tried:
        answer = house.someone().open(path, method=method)
        if path.startswith(("/api/", "/metrics")):
            assert answer.status_code == 401, (method, path)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        else:
            assert (answer.status_code, answer.location) == (303, f"/login?next={path}")
    assert len(house.kernel.log) == done


def test_the_read_only_role_may_look_and_nothing_else(house: House) -> None:
    reader, done = house.someone(TOKENS.read), len(house.kernel.log)
    for method, path in endpoints(house):
        status = reader.open(path, method=method).status_code if path != "/api/events" else 200
        assert (status == 403) == (method != "GET"), (method, path, status)
    assert len(house.kernel.log) == done


def test_paths_that_are_not_there_tell_a_stranger_nothing(house: House) -> None:
    assert house.someone().get("/api/nothing").status_code == 401


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic bWF5LXdyaXRl", "may-write", "Bearer "])
def test_wrong_tokens(house: House, header: str) -> None:
    assert house.someone().get("/api/status", headers={"Authorization": header}).status_code == 401


def test_wrong_tokens_are_limited_and_forgiven_after_a_while(house: House) -> None:
    browser = house.someone()
    for _ in range(5):
        assert browser.post("/login", data={"token": "guess"}).status_code == 401
    refused = browser.post("/login", data={"token": "guess"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    blocked = house.someone("guess").get("/api/status")
    assert (blocked.status_code, blocked.headers["Retry-After"]) == (429, "60")
    other = house.someone("guess").get("/api/status", environ_overrides={"REMOTE_ADDR": "192.0.2.7"})
    assert other.status_code == 401
    house.tick(60)
    assert browser.post("/login", data={"token": "guess"}).status_code == 401


def test_nobody_locks_out_the_right_token(house: House) -> None:
    for _ in range(20):
        house.someone("guess").get("/api/status")
    for token in (TOKENS.write, TOKENS.read):
        assert house.someone(token).get("/api/status").status_code == 200
    browser = house.someone()
    assert browser.post("/login", data={"token": "guess"}).status_code == 429
    assert browser.post("/login", data={"token": TOKENS.read}).status_code == 303
    assert house.someone("guess").get("/api/status").status_code == 429, "a right token forgives no wrong ones"


def test_a_throttle_remembers_a_bounded_number_of_addresses() -> None:
    throttle, clock = Throttle(), Clock()
    for number in range(5000):
        throttle.failed(f"2001:db8::{number:x}", clock.now)
    assert len(throttle._failed) == 1024


def test_the_session_cookie_is_httponly_and_strict(house: House) -> None:
    cookie = house.someone().post("/login", data={"token": TOKENS.write}).headers["Set-Cookie"]
    assert re.search(r"^longhaul-5f933a69=.*; HttpOnly; Path=/; SameSite=Strict$", cookie)
    assert TOKENS.write not in cookie
    house.app.config["SESSION_COOKIE_SECURE"] = True
    assert "; Secure;" in house.someone().post("/login", data={"token": TOKENS.write}).headers["Set-Cookie"]


def test_only_login_and_logout_set_the_cookie(house: House) -> None:
    """An answer to another page that comes after the logout would log in again."""
    browser, csrf = log_in(house)
    patched = browser.patch("/api/lanes/london", json={"rtt": "90ms"}, headers={"X-CSRF-Token": csrf})
    for answer in (browser.get("/"), browser.get("/api/status"), browser.get("/api/nothing"), patched):
        assert "Set-Cookie" not in answer.headers, answer
    assert "Max-Age=0" in browser.post("/logout", data={"csrf": csrf}).headers["Set-Cookie"]


def test_a_session_ends_twelve_hours_after_the_login(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, _ = log_in(house)
    now = int(time.time())
    for hours, status in ((11, 200), (13, 401)):
        monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _, late=hours * 3600: now + late)
        assert browser.get("/api/status").status_code == status


def test_a_session_of_other_tokens_is_worth_nothing(house: House, tmp_path: Path) -> None:
    browser, _ = log_in(house)
    cookie = browser.get_cookie(TOKENS.cookie)
    assert cookie
    house.app.secret_key = tokens.Tokens("another", "one", "more").session_key
    assert browser.get("/api/status").status_code == 401


def test_two_daemons_of_a_host_leave_each_other_logged_in(house: House) -> None:
    """Browsers send cookies to every port of a host, so a second one of the same name would replace the first."""
    browser, _ = log_in(house)
    other = create_app(house.daemon, Guard(tokens.Tokens("another", "one", "more")))
    answer = other.test_client().post("/login", data={"token": "another"})
    name, _, value = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
    browser.set_cookie(name, value)
    assert browser.get("/api/status").status_code == 200


def test_a_session_changes_something_only_with_the_pages_csrf_token(house: House) -> None:
    browser, csrf = log_in(house)
    url, patch = "/api/lanes/london", {"rtt": "90ms"}
    assert browser.get("/api/status").status_code == 200
    assert browser.patch(url, json=patch).status_code == 403
    assert browser.patch(url, json=patch, headers={"X-CSRF-Token": "guess"}).status_code == 403
    assert browser.patch(url, json=patch, headers={"X-CSRF-Token": csrf}).status_code == 200
    assert browser.post("/logout", data={}).status_code == 403
    assert browser.post("/logout", data={"csrf": csrf}).status_code == 303
    assert browser.get("/api/status").status_code == 401


def test_a_reading_session_stays_one(house: House) -> None:
    browser, csrf = log_in(house, TOKENS.read)
    answer = browser.patch("/api/lanes/london", json={"rtt": "90ms"}, headers={"X-CSRF-Token": csrf})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8642", 200), ("localhost.:8642", 200), ("127.0.0.1:8642", 200), ("[::1]:8642", 200),
        ("192.0.2.1", 200), ("evil.example", 421), ("localhost..", 421), (".", 421),
        ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("[::1", 421),
    ],
)  # fmt: skip
def test_only_known_names_may_call_us(house: House, host: str, status: int) -> None:
    assert house.client.get("/api/status", headers={"Host": host}).status_code == status


def called(house: House, name: str) -> FlaskClient:
    """A client with the token, of a server that answers to this name, too."""
    client = create_app(house.daemon, Guard(TOKENS, frozenset({name}))).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKENS.write}"
    return client


@pytest.mark.parametrize("name", ["appliance.example", "Appliance.Example", "appliance.example."])
@pytest.mark.parametrize("host", ["appliance.example", "appliance.example.:8642", "APPLIANCE.example"])
def test_a_name_may_be_allowed(house: House, name: str, host: str) -> None:
    assert called(house, name).get("/api/status", headers={"Host": host}).status_code == 200
    assert called(house, name).get("/api/status", headers={"Host": f"{host}.evil"}).status_code == 421


@pytest.mark.parametrize("port", ["", ":8443"])
def test_behind_the_documented_proxy_pages_change_lanes_at_any_port(house: House, port: str) -> None:
    """nginx replaces $host with the name alone, and $http_host with the browser's header."""
    sent = f"appliance.example{port}"
    documented = re.search(r"proxy_set_header Host (\S+);", (ROOT / "emulator/docs/security.md").read_text())
    assert documented
    passed_on = {"$host": sent.partition(":")[0], "$http_host": sent}[documented[1]]
    headers = {"Host": passed_on, "Origin": f"https://{sent}"}
    changed = called(house, "appliance.example").patch("/api/lanes/london", json={"rtt": "90ms"}, headers=headers)
    assert changed.status_code == 200, changed.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_change_nothing(house: House, headers: dict[str, str], status: int) -> None:
    answer = house.client.patch("/api/lanes/london", json={"rtt": "90ms"}, headers=headers)
    assert answer.status_code == status
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_every_answer_forbids_inline_scripts_and_third_parties(house: House) -> None:
    browser, _ = log_in(house)
    for answer in (
        browser.get("/"),
        browser.get("/api/status"),
        browser.get("/nothing"),
        house.someone().get("/login"),
    ):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert not re.search(r"unsafe|http|\*", policy)
        assert (answer.headers["X-Frame-Options"], answer.headers["X-Content-Type-Options"]) == ("DENY", "nosniff")
        assert (answer.headers["Referrer-Policy"], answer.headers["Cache-Control"]) == ("same-origin", "no-store")


TEMPLATES = sorted((Path(server.__file__).parent / "templates").glob("*.html"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_anything_inline_or_from_elsewhere(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://|\|\s*safe", text)
    assert all("src=" in tag or 'type="application/json"' in tag for tag in re.findall(r"<script[^>]*>", text))


@pytest.mark.parametrize("goal", ["//evil.example", "https://evil.example", "/\\evil.example", "/login"])
def test_after_the_login_one_stays_here(house: House, goal: str) -> None:
    assert house.someone().post("/login", data={"token": TOKENS.write, "next": goal}).location == "/"


@pytest.mark.parametrize("goal", ["/runs?run=a&with=b&cell=c", "/#london", "/schedule?lane=japan#key"])
def test_after_the_login_one_sees_what_one_asked_for(house: House, goal: str) -> None:
    assert house.someone().post("/login", data={"token": TOKENS.write, "next": goal}).location == goal


def test_the_unix_socket_needs_no_token_and_no_header_can_pretend_to_be_it(house: House) -> None:
    assert house.someone().get("/api/status", environ_overrides={"longhaul.trusted": True}).status_code == 200
    assert house.someone().get("/api/status", headers={"longhaul.trusted": "True"}).status_code == 401


@pytest.mark.parametrize("name", ["--help", "-c", "cubic;reboot", "$(reboot)", "a b", "../x", "", "ä", "x" * 64])
def test_no_word_of_a_user_can_be_an_option_or_a_shells(house: House, name: str) -> None:
    for key in ("cc", "tcp_profile", "lane"):
        answer = house.client.post("/api/runs?dry_run=1", json={"rtt": ["1ms"], key: [name]})
        assert answer.status_code == 422
        assert answer.json["mistakes"][0]["path"] == key
    tree: Any = {"name": "x", "hub": "y", "lanes": {name: {"rtt": "1ms"}}}
    assert house.client.put("/api/topology", json=tree).status_code == 422


def test_nothing_of_ours_ever_starts_a_shell() -> None:
    root = STAR.parents[1]
    sources = [path for part in ("web", "emulator") for path in (root / part).rglob("*.py")]
    assert len(sources) > 50
    said = [p.name for p in sources if re.search(r"shell=True|os\.system|os\.popen|getoutput", p.read_text())]
    assert said == []
