"""Kernels in a cache of a test's own: folders with a record, whose executable is none."""

from __future__ import annotations

import json
from pathlib import Path

from emulator.lab import build_cache, kernel_store
from emulator.lab.kernel_store import KernelRecord
from emulator.system import struct_json

RECORD = KernelRecord(
    "7.2.13", "Debian's linux-source-7.2", "7.2.13-1", mode="seccomp", patches=("7.2/0001-x.patch",),
    obsolete={"0002-y": "gone"}, congestion_controls=("bbr", "reno"),
)  # fmt: skip
SEVEN, OTHER = "kernel-0123456789ab", "kernel-ba9876543210"

CONTROL = """
struct tcp_congestion_ops mine = {{ .ssthresh = a, .undo_cwnd = b, .cong_avoid = c, .name = "{name}" }};
int start(void) {{ return tcp_register_congestion_control(&mine); }}
"""
"""A congestion control as far as it is looked at before a compiler runs."""


def store(id: str, record: KernelRecord | None, *names: str) -> Path:
    """Put a kernel into the cache of $XDG_CACHE_HOME."""
    folder = build_cache.folder() / id
    folder.mkdir(parents=True)
    (folder / "linux").write_bytes(b"\x7fELF")
    if record:
        (folder / "kernel.json").write_text(json.dumps(struct_json.to_plain(record)))
    for name in names:
        kernel_store.name(folder, name)
    return folder
