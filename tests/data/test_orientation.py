"""Cameras write how they were held: images are upright, from any source and in any format."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import pyrite
from pyrite.data.images import LazyImages

UPRIGHT = np.kron(np.arange(0, 240, 20).reshape(3, 4), np.ones((16, 16))).astype(np.uint8)  # no two turns are equal


def photograph(orientation: int, format: str = "JPEG", pixels: Any = UPRIGHT) -> bytes:
    """The file of an image whose orientation makes it the upright one."""
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}.get(orientation)
    image = Image.fromarray(pixels)
    image = image if back is None else image.transpose(Image.Transpose(back))
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    image.save(file, format, exif=exif, **({"quality": 95} if format == "JPEG" else {"lossless": True}))
    return file.getvalue()


def same(found: Any, expected: Any = UPRIGHT) -> bool:
    return bool(np.abs(np.asarray(found, np.float64) - expected).max() < 12)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_and_format(orientation: int, format: str, tmp_path: Path) -> None:
    content = photograph(orientation, format)
    assert same(np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("L")))
    (tmp_path / "a.img").write_bytes(content)
    assert same(LazyImages(tmp_path, ["a.img"], UPRIGHT.shape, channels=1)[[0]][0, 0])
    large = photograph(orientation, format, np.kron(UPRIGHT, np.ones((8, 8), np.uint8)))  # drafted
    (tmp_path / "b.img").write_bytes(large)
    assert np.abs(LazyImages(tmp_path, ["b.img"], (24, 64), channels=1)[[0]][0, 0].mean(0) - UPRIGHT.mean(0)).max() < 20


@pytest.mark.parametrize("lazy", [True, False])
def test_folders_archives_and_images_of_pillow(lazy: bool, tmp_path: Path) -> None:
    files = {f"{place % 2}/{place}.jpg": photograph(place) for place in range(1, 9)}
    for name, content in files.items():
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(content)
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for name, content in files.items():
            for ending, part in (("jpg", content), ("cls", name[:1].encode())):
                member = tarfile.TarInfo(f"{name[2:3]}.{ending}")
                member.size = len(part)
                archive.addfile(member, io.BytesIO(part))
    folder = pyrite.data.load(str(tmp_path / "photos"), lazy=lazy)
    assert folder.inputs.shape == (8, 1, *UPRIGHT.shape)  # that of all upright images
    archived = pyrite.data.load(f'tar("{tmp_path / "photos.tar"}")')
    pictures = pyrite.data.load([(Image.open(tmp_path / "photos" / name), int(name[0])) for name in files])
    for data in (folder, archived, pictures):
        assert all(same(image[0]) for image in data.inputs[np.arange(8)])


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0rubbish", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"]
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of Pillow
def test_damaged_exif_leaves_the_pixels(exif: bytes, tmp_path: Path) -> None:
    Image.fromarray(UPRIGHT).save(tmp_path / "a.jpg", quality=95, exif=exif)
    assert same(LazyImages(tmp_path, ["a.jpg"], UPRIGHT.shape, channels=1)[[0]][0, 0])
