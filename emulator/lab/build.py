"""Build the kernel and the image at the same time: they are independent, and the image mostly waits for downloads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.lab import build_image, build_kernel
from emulator.lab.build_cache import Progress

EXPECTED_S = {
    "download the kernel's source": 15, "unpack the kernel's source": 15, "configure the kernel": 10,
    "compile the kernel": 170, "download Debian packages": 20, "unpack Debian packages": 15,
    "install Python packages": 10, "compile Python packages": 20,
}  # fmt: skip
"""The duration of each step on two CPUs, in seconds, for the progress display."""


def build_lab(progress: Progress) -> tuple[Path, Path]:
    """Build what is missing. Returns the kernel's executable and the image's root folder. Raises LabError.

    `progress` is called by two threads.
    """
    linux, root = build_kernel.place() / "linux", build_image.place() / "root"
    if linux.exists() and root.exists():
        return linux, root
    with ThreadPoolExecutor(2, thread_name_prefix="build") as pool:
        image = pool.submit(build_image.build, progress)
        kernel = pool.submit(build_kernel.build, progress)
        # The image first: it succeeds or fails minutes before the kernel.
        built = image.result()
        return kernel.result(), built
