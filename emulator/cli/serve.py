"""serve: the daemon with its API and web pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from emulator.cli import web_package
from emulator.cli.options import appliance_of
from emulator.cli.output import emit_json, json_option
from emulator.errors import InputError
from emulator.lab.boot_options import IN_LAB
from emulator.system import event_log

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from web.server import Server


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul serve\n"
    "  longhaul serve --listen 0.0.0.0:8642 --host appliance.example.net\n"
    "  longhaul serve --socket /run/longhaul/longhaul.sock\n"
    "  longhaul serve --demo\n"
    "  longhaul serve --demo --here"
)
@click.option("--listen", default="127.0.0.1:8642", show_default=True, metavar="HOST:PORT", help="Listen address.")
@click.option(
    "--socket",
    "unix",
    type=click.Path(path_type=Path),
    help="Also listen on a unix socket (mode 0600), without a token.",
)
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A host name that browsers may use here.")
@click.option("--https", is_flag=True, help="A TLS proxy is in front: send cookies only over HTTPS.")
@click.option(
    "--demo", is_flag=True, help="Run everything inside the lab, in real time: no NIC, no root, no netem, no token."
)
@click.option(
    "--here", is_flag=True, help="Run the demo on this machine's kernel, as root: netem, else the wire engine."
)
@json_option
@click.pass_context
def serve(
    ctx: click.Context, listen: str, unix: Path | None, hosts: tuple[str, ...], https: bool, demo: bool, here: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Serve the API and the web pages, and watch the lanes as 'longhaul daemon' does, until Ctrl-C.

    TCP clients need a token. The first start writes the tokens to the state folder, mode 0600: 'token' may change
    things, 'token-read-only' may read, 'token-operator' may also run programs outside the lab, and add Debian packages
    to the lab. The unix socket is open to everybody who may open its file.
    """
    if here and not demo:
        raise click.UsageError("--here needs --demo", ctx)
    if demo:
        ctx.exit(_demo(listen, here, as_json))
    from emulator.system import state_dir

    appliance = appliance_of(ctx, command="longhaul serve")
    server = _server(appliance, state_dir.state_dir(), listen, unix, frozenset(hosts), https, as_json)
    server.end_on_signals()  # first: who reads the address may end the server
    _report(f"http://{server.address}/", str(state_dir.state_dir() / "token"), as_json)
    server.run()


def _server(
    appliance: Appliance, state: Path, listen: str, unix: Path | None, hosts: frozenset[str], https: bool, as_json: bool
) -> Server:
    """The server over this machine's lanes. Raises MissingError when it cannot listen."""
    web_package.provide()
    from emulator.lab import runtime
    from web import server, wiring
    from web.auth.guard import Guard
    from web.auth.tokens import load

    if not server.is_loopback(listen) and not https:
        advice = "tokens travel unencrypted; use a TLS proxy and --https"
        if event_log.is_read(os.environ):
            event_log.logger(sys.stderr, os.environ)(event_log.WARNING, "unencrypted", listen=listen, advice=advice)
        else:
            click.echo(f"{listen}: {advice}", err=True)
    # A lab boots no other, and the service's unit refuses what a lab needs.
    lab = IN_LAB not in os.environ and not runtime.refused_trace() and not runtime.refused_memory()
    return wiring.server(appliance, state, Guard(load(state), hosts, https), listen, unix, lab=lab, as_json=as_json)


def _demo(listen: str, here: bool, as_json: bool) -> int:
    """Serve from inside a lab, or from namespaces of this machine, until Ctrl-C."""
    from emulator.cli import demo_unshare
    from emulator.cli.build_progress import build_progress
    from emulator.lab import demo_host

    web_package.provide()
    from web.server import is_loopback, split

    if not is_loopback(listen):
        raise InputError.single("the demo needs no token, so it listens only on loopback", "--listen")
    if here:
        with demo_host.listening(split(listen)) as listener:
            host, port = listener.getsockname()[:2]
            _report(f"http://{host}:{port}/", "", as_json)
            return demo_unshare.serve(listener)
    with build_progress() as progress:
        try:
            return demo_host.serve(split(listen), lambda url: _report(url, "", as_json), progress)
        except KeyboardInterrupt:
            return 0


def _report(url: str, token: str, as_json: bool) -> None:
    """Print the address as soon as the server answers."""
    if as_json:
        emit_json({"url": url, "token": token})
        return
    if event_log.is_read(os.environ):
        event_log.logger(sys.stderr, os.environ)(event_log.INFO, "serving", url=url, token=token)
        return
    click.echo(f"{url}  (Ctrl-C ends it)")
    if token:
        click.echo(f"log in with the token in {token}")
