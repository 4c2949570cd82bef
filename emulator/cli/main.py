"""The command line: `longhaul COMMAND`. It imports a command's module only when the command is called.

Start-up time matters: in the lab every import is read through the host's file system, so this module imports little.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import click

from emulator import __version__
from emulator.errors import InputError, LonghaulError

INTERRUPTED = 130
STREAM = "the output"
"""Errors of stdout and stderr name no file."""
OF_STREAMS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
OF_THE_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Why the kernel gives no process, no memory or no descriptor: the limits of this user, or of the machine."""

REMOTE = ("up", "down", "status", "plan", "set", "add", "remove", "confirm", "undo", "history")
"""The commands that work with a remote appliance."""


class LazyGroup(click.Group):
    """A group whose commands are a table of "module:attribute" and help line; a command is imported when it is
    called."""

    commands_at: ClassVar[dict[str, tuple[str, str]]] = {
        "up": ("emulator.cli.lanes:up", "Bring a topology up."),
        "down": ("emulator.cli.lanes:down", "Remove all lanes and return their ports."),
        "status": ("emulator.cli.lanes:status", "Show every lane: settings, kernel state, drops, drift."),
        "plan": ("emulator.cli.lanes:plan", "Show the ip and tc commands that 'up' would perform."),
        "set": ("emulator.cli.set:change", "Change live lanes without losing a packet."),
        "add": ("emulator.cli.lane_set:add", "Add a lane to what is up."),
        "remove": ("emulator.cli.lane_set:remove", "Remove a lane; the others go on."),
        "confirm": ("emulator.cli.safety:confirm", "Confirm a change that was made with --confirm."),
        "undo": ("emulator.cli.safety:undo", "Return to the topology before the last change."),
        "history": ("emulator.cli.safety:history", "Show the last changes: when, who, what."),
        "daemon": ("emulator.cli.safety:daemon", "Watch the lanes: repair drift, revert unconfirmed changes."),
        "verify": ("emulator.cli.verify:verify", "Measure every RTT and write a certificate."),
        "capture": ("emulator.cli.capture:capture", "Write the frames of the lanes to files for Wireshark."),
        "nics": ("emulator.cli.nics:nics", "List the network ports and why some cannot be used."),
        "init": ("emulator.cli.nics:init", "Write a topology file from the connected ports."),
        "tune": ("emulator.cli.nics:tune", "Assign CPU cores to every port."),
        "schedule": ("emulator.cli.schedule:schedule", "Change lanes over time."),
        "record": ("emulator.cli.record:record", "Measure a real path and write its path profile."),
        "replay": ("emulator.cli.replay:replay", "Replay a path profile on a lane."),
        "places": ("emulator.cli.places:places", "List places and the round trips between them."),
        "star": ("emulator.cli.places:star", "Write a topology from places."),
        "sweep": ("emulator.cli.sweep:sweep", "Measure throughput against RTT and print the table."),
        "rfc6349": ("emulator.cli.rfc6349:rfc6349", "Test TCP over a lane according to RFC 6349."),
        "report": ("emulator.cli.runs:report", "Show a run's results: tables, HTML with figures, CSV, JSON."),
        "compare": ("emulator.cli.runs:compare", "Compare runs; fail when a cell became slower."),
        "bisect": ("emulator.cli.bisect:bisect", "Find the commit of Linux that made a cell slower."),
        "runs": ("emulator.cli.runs:runs", "List the runs."),
        "rename": ("emulator.cli.runs:rename", "Give a run a name."),
        "bdp": ("emulator.cli.paths:bdp", "Compute BDP, windows and expected throughput."),
        "advise": ("emulator.cli.paths:advise", "Print the settings that hosts need for a path."),
        "serve": ("emulator.cli.serve:serve", "Serve the API and the web pages."),
        "demo": ("emulator.cli.demo:demo", "Show RTTs and throughput in the lab, in a minute."),
        "doctor": ("emulator.cli.doctor:doctor", "Tell what runs here, and how to fix what does not."),
        "lab": ("emulator.cli.lab:lab", "Build, boot and use the lab."),
        "docs": ("emulator.cli.docs:docs", "Show a page of the documentation."),
        "schema": ("emulator.cli.lanes:schema", "Print the JSON Schema of a topology file."),
        "completion": ("emulator.cli.lanes:completion", "Print the completion script of a shell."),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, in the order in which a user needs them."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command."""
        if cmd_name not in self.commands_at:
            return None
        module, attribute = self.commands_at[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands for --help without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_at.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="longhaul")
@click.option("--url", envvar="LONGHAUL_URL", help="Another machine's daemon: http://HOST:8642, or unix:/PATH.")
@click.pass_context
def cli(ctx: click.Context, url: str | None) -> None:
    """Longhaul: a long-fat-network emulator for Linux.

    Emulates the round-trip time of remote data centres on lanes between network ports.

    \b
    Examples:
      longhaul lab build                                       once: build the lab
      longhaul lab run -- longhaul plan topologies/new-york.yaml
      sudo longhaul up topologies/new-york.yaml                on your own machine
      longhaul sweep --in-lab --rtt 0,32,80,346 --tcp-profile default,max
      longhaul --url http://appliance:8642 status              on a remote machine, see 'serve'
    """
    if url:
        if ctx.invoked_subcommand not in REMOTE:
            raise InputError.single(f"this command works only locally; remote commands: {', '.join(REMOTE)}", "--url")
        from emulator.control.remote import remote
        from emulator.system import state_dir

        ctx.obj = remote(url, state_dir.state_dir())


def main(argv: Sequence[str] | None = None, obj: object = None) -> int:
    """Run one command line and return its exit code; failures go to stderr, as JSON with --json.

    `obj` is the Appliance to use; None means this machine's own.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    own_args = args[: args.index("--")] if "--" in args else args
    as_json = "--json" in own_args
    _furnish_streams()
    try:
        answer: Any = cli.main(args, prog_name="longhaul", standalone_mode=False, obj=obj)
    except LonghaulError as error:
        return _report(error, as_json)
    except OSError as error:
        if not (failure := _of_the_machine(error)):
            raise
        return _report(failure, as_json)
    except click.ClickException as error:
        return _report_usage(error, as_json)
    except click.Abort:
        return INTERRUPTED
    return answer if isinstance(answer, int) else 0


def _furnish_streams() -> None:
    """Let no file of ours become stdin, stdout or stderr where the caller closed them; print what a narrow encoding
    lacks as an escape."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest number that is free is this one; programs inherit it.
            os.set_inheritable(null := os.open(os.devnull, os.O_RDWR), null == fd)
            setattr(sys, name, os.fdopen(null, mode, encoding="utf-8", closefd=False))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _of_the_machine(error: OSError) -> LonghaulError | None:
    """The failure that an error of the kernel's is for the user; None for one that can only be a bug."""
    from emulator.errors import MissingError
    from emulator.system.atomic_file import unwritten

    if error.errno in OF_THE_MACHINE:
        cure = "end other programs, or raise the limits of this user (ulimit -a)"
        return MissingError(f"the kernel refused what this command needs: {os.strerror(error.errno)}; {cure}")
    if error.filename is None:
        return unwritten(STREAM, error) if error.errno in OF_STREAMS else None
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else error.filename
    if error.errno in (*OF_STREAMS, errno.EROFS, errno.EACCES, errno.EPERM):
        return unwritten(name, error)
    return MissingError(f"cannot use {name}: {error.strerror}")


def _report_usage(error: click.ClickException, as_json: bool) -> int:
    """Report an invalid command line on stderr, in click's format. Returns the exit code."""
    if not as_json:
        with contextlib.suppress(OSError):
            error.show()
        return error.exit_code
    param = error.param if isinstance(error, click.BadParameter) else None
    where = param.opts[0] if param else ""
    _report(InputError.single(error.message or error.format_message(), where), as_json)
    return error.exit_code


def _report(error: LonghaulError, as_json: bool) -> int:
    """Report the failure on stderr, if that can be written. Returns the exit code."""
    with contextlib.suppress(OSError):
        _tell(error, as_json)
    return error.exit_code


def _tell(error: LonghaulError, as_json: bool) -> None:
    """Print the failure on stderr."""
    mistakes = error.mistakes if isinstance(error, InputError) else ()
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    if as_json:
        problem = {
            "error": text,
            "kind": type(error).__name__,
            "exit_code": error.exit_code,
            "mistakes": [{"where": m.where, "path": m.path, "text": m.text} for m in mistakes],
        }
        click.echo(json.dumps(problem), err=True)
        return
    click.echo(text, err=True)
    if len(mistakes) > 1:
        click.echo(f"{len(mistakes)} mistakes; nothing was changed", err=True)
