"""How this Longhaul was installed, where it runs, and the commands that add to it what it lacks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from emulator import __version__

CLONE = Path(__file__).parents[2] / "scripts/install"
PACKAGED = Path("/usr/lib/longhaul")
"""The environment of the Debian package: apt-get installs for it, pip does not."""
OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that Docker and Podman put into their containers."""
OURS = "oci"
"""The variable `container` in the images of a release."""
EXTENDED = (
    "printf 'FROM longhaul:{version}\\nUSER 0\\nRUN apt-get update && apt-get install -y --no-install-recommends "
    "{packages}\\nUSER 65534:65534\\n' | docker build -t longhaul-more -"
)


def in_container() -> bool:
    """Whether this is a container, by systemd's convention or by the files of Docker and Podman."""
    return bool(_container()) or any(path.exists() for path in OF_CONTAINERS)


def _container() -> str | None:
    return os.environ.get("container")  # noqa: SIM112 (systemd's name of it)


def as_root(command: str) -> str:
    """The command, by sudo for who is not root."""
    return f"sudo {command}" if os.geteuid() else command


def apt(*packages: str) -> str:
    """The command that installs Debian packages; for an image of a release, one that builds another with them."""
    if _container() == OURS:
        return EXTENDED.format(version=__version__, packages=" ".join(packages))
    return as_root(f"apt-get install -y {' '.join(packages)}")


def library(name: str) -> str:
    """The command that installs a Python library for this Longhaul, by its name on PyPI."""
    if Path(sys.prefix) == PACKAGED:
        return apt(f"python3-{name}")
    return str(CLONE) if CLONE.exists() else f"{sys.executable} -m pip install --upgrade {name}"
