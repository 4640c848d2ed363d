"""``pyrite doctor``: what a bug report should contain about this machine."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, distribution, version

import pyrite
from pyrite.cli.terminal import AsJson, print_json, print_table


def doctor(as_json: AsJson = False) -> None:
    """Print versions, devices, threads, extras and data sets for a bug report."""
    import torch

    from pyrite.data import DATASETS
    from pyrite.data.files import data_folder
    from pyrite.kernel import library

    cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    devices = ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]
    there = {path.parent.name for path in data_folder().glob("*/*")}  # a failed download leaves an empty folder
    packages = ("torch", "numpy", "scipy", "pandas", "scikit-learn", "pillow")
    found = {
        "pyrite": pyrite.__version__,
        "python": f"{platform.python_version()}, {sys.platform}, {platform.machine()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in packages if _installed(name)),
        "devices": ", ".join(devices),
        "threads": f"{torch.get_num_threads()} of {os.cpu_count()} cores",
        "loss kernel": "compiled" if library() is not None else "not compiled: losses use torch's operations",
        "extras": ", ".join(f"{name} {'yes' if here else 'no'}" for name, here in _extras().items()),
        "data sets": f"{', '.join(sorted(there & set(DATASETS))) or 'none'} in {data_folder()}",
    }
    print_json(found) if as_json else print_table((), list(found.items()), left=2)


def _extras() -> dict[str, bool]:
    """The extras of the package, and whether all that they require is installed; "dev" is for development."""
    from packaging.requirements import Requirement

    try:
        package = distribution("pyrite-labels")
    except PackageNotFoundError:  # run from a folder of sources
        return {}
    required = [Requirement(line) for line in package.requires or ()]
    return {
        extra: all(_installed(each.name) for each in required if each.marker and each.marker.evaluate({"extra": extra}))
        for extra in package.metadata.get_all("Provides-Extra") or ()
        if extra != "dev"
    }


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
