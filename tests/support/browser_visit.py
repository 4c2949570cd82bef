"""A daemon to be visited by a browser, and how patient the visitor is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal
from urllib.parse import urljoin

from playwright.sync_api import APIResponse, Browser, Page, Route, sync_playwright

from support.folders import ROOT
from support.free_ports import free_ports
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House
from web.live import Channel
from web.server import Server

LIMIT_MS = PATIENCE_S * 1000
AXE = ROOT / "tests/web/vendor/axe/axe.min.js"
Scheme = Literal["light", "dark"]


@dataclass
class Site:
    """A daemon with the founding star up, served; its looks are taken by the test."""

    house: House
    server: Server
    thread: threading.Thread
    looked: bool = False

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.server.address}"

    def look(self) -> None:
        """A second goes by."""
        self.house.tick()
        self.looked = True
        self.house.live.look()

    def beat(self, ended: threading.Event) -> None:
        """Send what a page does not show in each second without a look, as a real daemon sends looks.

        A page that hears nothing for five seconds says that the daemon does not answer, above all that it shows: a slow
        test would click what has moved.
        """
        while not ended.wait(1.0):
            if not self.looked:
                self.house.live.channel.send("watchdog", {"event": "begun"})
            self.looked = False

    def stop(self) -> None:
        """The daemon is gone."""
        self.house.live.channel.close()
        self.server.end()
        self.thread.join(PATIENCE_S)

    def start(self, house: House) -> None:
        """It is back, at the same address."""
        address = self.server.address
        house.live.channel = Channel()  # the same house had its own closed
        self.house, self.server, self.thread = house, *_listening(house, address)


def _listening(house: House, address: str) -> tuple[Server, threading.Thread]:
    """A server of the house, and the thread that runs it."""
    server = Server(house.app, address, threads=12)
    thread = threading.Thread(target=server.run)
    thread.start()
    return server, thread


@contextmanager
def served(house: House) -> Iterator[Site]:
    """Serve a house for the time of a block."""
    with free_ports() as port:  # nobody else gets it while the daemon is gone
        site, ended = Site(house, *_listening(house, f"127.0.0.1:{port}")), threading.Event()
        beats = threading.Thread(target=site.beat, args=(ended,))
        beats.start()
        try:
            yield site
        finally:
            ended.set()
            beats.join()
            site.stop()
            site.house.runs.stop()
            site.house.verifications.stop()


class Held:
    """Keeps the answer to the page's next request of this address and method until the test lets it go."""

    def __init__(self, page: Page, address: str, method: str = "GET") -> None:
        self._page, self._method, self._taken = page, method, False
        self._kept: list[tuple[Route, APIResponse]] = []
        page.route(address, self._keep)

    def _keep(self, route: Route) -> None:
        if self._taken or route.request.method != self._method:
            route.fallback()
            return
        self._taken = True
        self._kept.append((route, route.fetch()))

    def answered(self) -> None:
        """Wait until the server has answered."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._kept:
            assert time.monotonic() < deadline
            self._page.wait_for_timeout(20)

    def go(self) -> None:
        """Let the page have the answer, and wait until it has dealt with it."""
        ((route, answer),) = self._kept
        route.fulfill(response=answer)
        self._page.evaluate("fetch('/api/places').then((answer) => answer.text()).then(() => new Promise(setTimeout))")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without windows and menus. As root it cannot have its sandbox; the pages are our own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox"])
        browser.new_context().set_default_timeout(LIMIT_MS)
        yield browser
        browser.close()


def drag_to_end(page: Page, label: str) -> None:
    """Drag a slider from its beginning to its end, once it stands still where it is shown; wait until it is there."""
    slider = page.get_by_label(label)
    box = slider.bounding_box()
    assert box
    middle = box["height"] / 2
    slider.drag_to(
        slider,
        source_position={"x": 10, "y": middle},
        target_position={"x": box["width"] - 2, "y": middle},
        steps=5,
    )
    page.wait_for_function("slider => slider.value > 0.975 * slider.max", arg=slider.element_handle())


def violations(page: Page) -> list[str]:
    """What axe finds: rules, each with the first elements that break it."""
    page.evaluate(AXE.read_text())
    ran = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']} {[node['target'] for node in one['nodes']][:3]}" for one in ran["violations"]]


def accessible(page: Page) -> None:
    """Axe finds nothing."""
    found = violations(page)
    assert found == [], found


def fits(page: Page, width: int) -> None:
    """Wait until nothing is wider than the window; what has just been drawn or resized may still be."""
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


def scrolled_to_the_end(page: Page) -> None:
    """Scroll until the footer is in sight; parts of the page that are drawn meanwhile push it down again."""
    page.wait_for_function(
        "() => { scrollTo(0, document.documentElement.scrollHeight);"
        " const footer = document.querySelector('footer').getBoundingClientRect();"
        " return footer.bottom > 0 && footer.top < innerHeight; }"
    )


def log_in(page: Page, url: str, token: str = TOKENS.write) -> None:
    """Log in with this token and visit the page, without a visit to the form."""
    answer = page.request.post(urljoin(url, "/login"), form={"token": token}, max_redirects=0)
    assert answer.status == HTTPStatus.SEE_OTHER
    page.goto(url)


def fill_login(page: Page, token: str) -> None:
    """Log in with this token in the form that is there."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


@contextmanager
def window(browser: Browser, site: Site, width: int = 1280, scheme: Scheme = "light") -> Iterator[Page]:
    """A new page of this width and with these colours, of somebody who has not logged in.

    It shares the browser's first context, without its cookies: who is there beside another needs a context of his own.
    """
    context = browser.contexts[0]
    if not context.pages:
        # This page stays, and with it the process: to start one takes a second.
        context.new_page().goto(site.url + "/login")
    context.clear_cookies()
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    # Without animations: what is looked at while it rises has too little contrast.
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    try:
        yield page
    finally:
        page.close()


@contextmanager
def visit(
    browser: Browser, site: Site, width: int = 1280, scheme: Scheme = "light", *, path: str = "/",
    token: str = TOKENS.write,
) -> Iterator[Page]:  # fmt: skip
    """A `window` on this page, logged in with this token."""
    with window(browser, site, width, scheme) as page:
        log_in(page, site.url + path, token)
        yield page
