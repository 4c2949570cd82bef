"""The three tokens, each for a role. The first start creates them, readable by root alone.

A reader looks, a writer changes lanes and starts test runs, an operator also runs commands of its own on the machines.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from pathlib import Path

from msgspec import Struct

from emulator.errors import MissingError
from emulator.system import atomic_file, bounded_file, kept_file

OPERATOR, WRITE, READ = "operator", "write", "read"
MAY_CHANGE = (WRITE, OPERATOR)
FILES = {OPERATOR: "token-operator", WRITE: "token", READ: "token-read-only"}
LEAST_LENGTH = 16
"""Of a token that somebody wrote by hand; Longhaul's own have 43 characters."""
log = logging.getLogger("longhaul.web")


class Tokens(Struct, frozen=True):
    """The tokens that open the API, by role."""

    write: str
    read: str
    operator: str

    def role_of(self, token: str) -> str | None:
        """The role of a token; every comparison takes the same time."""
        given = token.encode()
        may_write = hmac.compare_digest(given, self.write.encode())
        may_read = hmac.compare_digest(given, self.read.encode())
        may_operate = hmac.compare_digest(given, self.operator.encode())
        return OPERATOR if may_operate else WRITE if may_write else READ if may_read else None

    @property
    def session_key(self) -> bytes:
        """The key that signs session cookies: changing a token ends every session."""
        return hashlib.sha256(f"longhaul session {self.write} {self.read} {self.operator}".encode()).digest()

    @property
    def cookie(self) -> str:
        """The name of session cookies. Browsers send them to every port of a host, so each daemon has its own name."""
        return f"longhaul-{hashlib.sha256(self.session_key).hexdigest()[:8]}"


def load(folder: Path) -> Tokens:
    """Read the tokens in `folder` and create those that are missing or spoilt, with mode 0600. Raises MissingError."""
    atomic_file.folder(folder)
    return Tokens(*(_load(folder / FILES[role]) for role in (WRITE, READ, OPERATOR)))


def _load(path: Path) -> str:
    try:
        token = kept_file.read(path, bounded_file.TOKEN).decode("ascii").strip()
        if len(token) >= LEAST_LENGTH and token.isprintable():
            return token
        why = f"it holds {len(token)} characters, a token at least {LEAST_LENGTH}"
    except FileNotFoundError:
        why = ""
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}; run as root, or set LONGHAUL_STATE") from error
    except ValueError as error:
        why = str(error)
    if why:
        # An empty token would admit everybody: a process was killed, or the disk was full, while it was written.
        log.warning(
            "%s is spoilt: %s; it is now %s, and a new token takes its place", path, why, kept_file.set_aside(path)
        )
    token = secrets.token_urlsafe(32)
    atomic_file.write(path, f"{token}\n".encode())
    return token
