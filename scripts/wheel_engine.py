"""Put the wire engine's binary into a wheel, which is for this kind of machine then. Hatch runs it (pyproject.toml).

Without cargo the wheel is for every machine and has no engine: netem is then the only datapath.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EngineHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the engine and add it. An editable installation runs the one in emulator/engine/target."""
        if version == "editable":
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
