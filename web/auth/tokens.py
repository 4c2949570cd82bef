"""The two tokens: one may change things, one may only read. The first start creates them, readable by root alone."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

WRITE, READ = "write", "read"
FILES = {WRITE: "token", READ: "token-read-only"}


@dataclass(frozen=True)
class Tokens:
    """The tokens that open the API, by role."""

    write: str
    read: str

    def role_of(self, token: str) -> str | None:
        """The role of a token; every comparison takes the same time."""
        given = token.encode()
        may_write = hmac.compare_digest(given, self.write.encode())
        may_read = hmac.compare_digest(given, self.read.encode())
        return WRITE if may_write else READ if may_read else None

    @property
    def session_key(self) -> bytes:
        """The key that signs session cookies: changing a token ends every session."""
        return hashlib.sha256(f"longhaul session {self.write} {self.read}".encode()).digest()


def load(folder: Path) -> Tokens:
    """Read the tokens in `folder` and create those that are missing, with mode 0600."""
    folder.mkdir(parents=True, exist_ok=True)
    return Tokens(*(_load(folder / FILES[role]) for role in (WRITE, READ)))


def _load(path: Path) -> str:
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_text("ascii").strip()
    token = secrets.token_urlsafe(32)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return token
