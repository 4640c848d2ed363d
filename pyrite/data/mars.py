"""MARS: people recorded by six cameras, as tracklets; a data set for retrieval, not for classification.

The official files are two folders of frames and, in ``info``, the names of the frames in order and tables of which
runs of frames show one person in one camera. The tables are MATLAB files that count from 1; reading them runs no code.
"""

from pathlib import Path

import numpy as np

from pyrite.data.dataset import Dataset, Labels, Tracklets
from pyrite.data.files import read_text
from pyrite.data.images import LazyImages, inside, look_at
from pyrite.data.matlab import read_table
from pyrite.data.web import root_of
from pyrite.errors import PyriteError

__all__ = ["mars"]

_SOURCE = "its authors, see http://www.liangzheng.com.cn/Project/project_mars.html"


def mars(path: str | None = None, size: int | tuple[int, int] = 256, check: bool = False) -> Dataset:
    """Pedestrians, 625 people to train on and 636 others for retrieval, in tracklets; read lazily.

    Frames, which are 256 x 128, are warped to ``size``; papers use 256 x 256. ``.labels`` number the people of the
    training part; ``.tracklets`` lists the frames that belong together, with their person and camera. ``.test``
    shows other people and has other classes; its tracklets include the queries, the identity 0 for distractors and -1
    for junk. With ``check``, every frame is opened once, and one that is not an image is an error, because tracklets
    are runs of frames.
    """
    root = root_of("mars", path, ("mars", "MARS"), "info/tracks_train_info.mat", _SOURCE)
    query = _matrix(root / "info/query_IDX.mat", "query_IDX").ravel()
    test = _part(root, "test", size, query, check, None)
    return _part(root, "train", size, np.empty(0, np.int64), check, test)


def _part(
    root: Path, part: str, size: int | tuple[int, int], query: Labels, check: bool, test: Dataset | None
) -> Dataset:
    source = root / f"info/{part}_name.txt"
    frames = [inside(line.strip(), source, number) for number, line in enumerate(read_text(source, "mars"), start=1)]
    for number, frame in enumerate(frames, start=1):
        if "/" in frame or len(frame) < 6:
            raise PyriteError(f"{source}, line {number}: {frame!r} is not the name of a frame")
    tracklets = _tracklets(root / f"info/tracks_{part}_info.mat", f"track_{part}_info", frames, query)
    # The first four characters of a frame's name are the number of the person, and the name of its folder.
    people, labels = np.unique([frame[:4] for frame in frames], return_inverse=True)
    names = [f"bbox_{part}/{frame[:4]}/{frame}" for frame in frames]
    if check:
        _, _, bad = look_at(root, names)
        if bad:
            raise PyriteError(f"{bad[0].reason} (and {len(bad) - 1} more of {len(names)} frames)")
    return Dataset(
        "mars" if part == "train" else "mars test",
        LazyImages(root, names, size, warp=True),
        labels.astype(np.int64),
        tuple(str(person) for person in people),
        test,
        tracklets=tracklets,
    )


def _tracklets(path: Path, key: str, frames: list[str], query: Labels) -> Tracklets:
    table = _matrix(path, key)
    if table.ndim != 2 or table.shape[1] != 4 or not len(table):
        raise PyriteError(f"{path}: {key!r} has the shape {table.shape}, not one row of four numbers per tracklet")
    first, last, identity, camera = table.T
    wrong = (first < 1) | (last < first) | (last > len(frames))
    if wrong.any():
        row = int(wrong.argmax())
        raise PyriteError(f"{path}: tracklet {row + 1} runs from {first[row]} to {last[row]} of {len(frames)} frames")
    for row, (frame, person) in enumerate(zip(first, identity, strict=True), start=1):
        if _person(frames[frame - 1]) != person:
            raise PyriteError(f"{path}: tracklet {row} is of person {person}, its first frame is {frames[frame - 1]!r}")
    outside = (query < 1) | (query > len(table))
    if outside.any():
        raise PyriteError(f"{path}: there is no tracklet {query[int(outside.argmax())]}, which query_IDX.mat names")
    return Tracklets(first - 1, last.copy(), identity.copy(), camera.copy(), query - 1)


def _person(frame: str) -> int | None:
    try:
        return int(frame[:4].lstrip("0") or "0")  # junk is "00-1"
    except ValueError:
        return None


def _matrix(path: Path, key: str) -> Labels:
    """A table of whole numbers."""
    values = read_table(path, key)
    if not np.isfinite(values).all() or (values != np.trunc(values)).any() or (np.abs(values) > 2**31).any():
        raise PyriteError(f"{path}: {key!r} is not a table of whole numbers")
    return values.astype(np.int64)
