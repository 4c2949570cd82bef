"""The appliance of the machine that this process runs on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from emulator.control import revert_start
from emulator.control.appliance import Appliance
from emulator.control.change_log import here
from emulator.control.protected_sessions import ssh_addresses
from emulator.hosts import saved_settings
from emulator.system.state_dir import state_dir


def local(
    folder: Path | None = None, command: str | None = None, guard: Callable[[Path], None] = revert_start.start
) -> Appliance:
    """This machine, over netlink. `folder` holds the intent: $LONGHAUL_STATE or /var/lib/longhaul when None.

    `command` is what the history shows as the cause of changes: this process's command line when None. Raises
    MissingError without the rights or the kernel features that netlink needs.
    """
    from emulator.kernel.netlink import NetlinkKernel  # pyroute2 is slow to import, and some commands need no kernel

    author = here(command or shlex.join(["longhaul", *sys.argv[1:]]))
    return Appliance(
        NetlinkKernel(), folder or state_dir(), ssh_addresses(), author=author, guard=guard,
        recover=saved_settings.recover,
    )  # fmt: skip
