"""Put into a wheel what is built: the wire engine's binary, or all that scripts/release made. Hatch runs it.

Without cargo the wheel is for every machine and has no engine: netem is then the only datapath.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES, TAG = "LONGHAUL_WHEEL_FILES", "LONGHAUL_WHEEL_TAG"
"""Set by scripts/release: a folder whose files go into the wheel as they lie there, and the wheel's tag."""


class EngineHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files and set the tag. An editable installation runs the engine in emulator/engine/target."""
        if version == "editable":
            return
        if FILES in os.environ:
            self._add_release(Path(os.environ[FILES]), build_data)
            return
        if not shutil.which("cargo"):
            self.app.display_warning("cargo is missing: this wheel has no wire engine (apt-get install cargo)")
            return
        engine = Path(self.root) / "emulator/engine"
        cargo = Path(self.root) / "scripts/engine-cargo"
        subprocess.run([cargo, "build", "-q", "--release", "--locked"], check=True)
        build_data["force_include"][str(engine / "target/release/longhaul-wire")] = "emulator/engine/longhaul-wire"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"

    def _add_release(self, folder: Path, build_data: dict[str, Any]) -> None:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            build_data["force_include"][str(file)] = str(file.relative_to(folder))
        build_data["pure_python"], build_data["tag"] = os.environ[TAG].endswith("-any"), os.environ[TAG]
