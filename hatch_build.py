"""Compiles the kernel of the losses into the package, if there is a C compiler. Without one the build goes on."""

import runpy
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface):
    """A wheel with the library is for one kind of machine, and for every Python and torch."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the source tree, from which an editable installation is used."""
        folder = Path(self.root, "pyrite", "kernel")
        for stale in folder.glob("kernel-*.so"):
            stale.unlink()
        try:
            library = runpy.run_path(str(folder / "build.py"))["compile_kernel"]()
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            self.app.display_warning(f"The kernel was not compiled; losses will use torch's operations. {reason}")
            return
        build_data["artifacts"].append(f"/pyrite/kernel/{library.name}")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
