"""Peak memory and time of one epoch over a folder of 100,000 small JPEG files: ``python -m benchmarks.many_files``.

The files show the pixels of CIFAR-10, some of them mirrored. The net is small: memory depends on the files.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageOps

from pyrite.data import load


def write_files(folder: Path, count: int) -> None:
    data = load("cifar10")
    for name in data.classes:
        (folder / name).mkdir(parents=True)
    for number in range(count):
        row = number % len(data.labels)
        image = Image.fromarray(data.inputs[row].transpose(1, 2, 0))
        image = image if number == row else ImageOps.mirror(image)
        image.save(folder / data.classes[data.labels[row]] / f"{number:06d}.jpg", quality=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="a folder to keep the files in, for other runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.folder or Path(place) / "files"
        if not folder.exists():
            write_files(folder, given.images)
        for source in (str(folder), f"folder({str(folder)!r}, lazy=True)"):
            options = ["--model", "fast_cnn(widths=[4, 4, 4])", "--features", "none", "--epochs", "1"]
            words = [sys.executable, "-m", "pyrite", "train", source, *options, "--out", f"{place}/{time.time()}"]
            begun = time.perf_counter()
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)
            if status:
                raise SystemExit(f"{' '.join(words)} failed")
            print(
                f"{source}: {used.ru_maxrss / 2**20:.2f} GiB at most, {time.perf_counter() - begun:.0f} s, "
                f"{used.ru_utime + used.ru_stime:.0f} s of processor time",
                flush=True,
            )


if __name__ == "__main__":
    main()
