"""A source that looks like Linux' to the builder of kernels: its make copies C files together in a moment.

The real one is built by tests/bench/kernels.py, which takes minutes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

MAKEFILE = r"""# SPDX-License-Identifier: GPL-2.0
VERSION = 6
PATCHLEVEL = 16
SUBLEVEL = 1
EXTRAVERSION =
NAME = Tiny

S := $(wildcard net/ipv4/*.c)
N := $(patsubst net/ipv4/%.c,$(O)/%.o,$(S))

tinyconfig:
	@mkdir -p $(O) && echo "# tiny" >$(O)/.config
olddefconfig:
	@grep -v CONFIG_UNKNOWN $(O)/.config >$(O)/.new; mv $(O)/.new $(O)/.config
linux: $(O)/linux
$(O)/linux: $(N) $(O)/.config
	cp /bin/true $@
$(O)/%.o: net/ipv4/%.c
	@echo "  CC      $<"
	@! grep -n "#error" $< || { echo "../$<:7:2: error: #error of mine"; false; }
	@cp $< $@
.PHONY: tinyconfig olddefconfig linux
"""
RENO = "int reno;\nint halves = 2;\nint last;\n"


def make(folder: Path) -> Path:
    """The source in a new folder."""
    files = {
        "Makefile": MAKEFILE,
        "Kconfig": "",
        "arch/um/Makefile": "",
        "fs/dcache.c": "wait_for_completion(&wait.completion);\n",
        "net/ipv4/Makefile": "obj-y := tcp_reno.o\n",
        "net/ipv4/tcp_reno.c": RENO,
        "drivers/gpu/big.c": "int unused;\n",
        "drivers/gpu/Kconfig": "",
        ".gitignore": "*.o\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def commit(folder: Path) -> str:
    """Make it a Git work tree; returns the commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *argv], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
