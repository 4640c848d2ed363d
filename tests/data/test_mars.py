import numpy as np
import pytest
from scipy.io import savemat

from pyrite.data import load

TRAIN = ["0001C1T0001F001.jpg", "0001C1T0001F002.jpg", "0001C2T0001F001.jpg", "0003C1T0001F001.jpg"]
TEST = [
    "00-1C1T0001F001.jpg",
    "0000C1T0001F001.jpg",
    "0000C1T0001F002.jpg",
    "0002C3T0001F001.jpg",
    "0002C5T0002F001.jpg",
]
TRAIN_TRACKS = [[1, 2, 1, 1], [3, 3, 1, 2], [4, 4, 3, 1]]
TEST_TRACKS = [[1, 1, -1, 1], [2, 3, 0, 1], [4, 4, 2, 3], [5, 5, 2, 5]]


@pytest.fixture
def mars(home, write):
    root = home / "mars"
    (root / "info").mkdir(parents=True)
    for part, frames, tracks in (("train", TRAIN, TRAIN_TRACKS), ("test", TEST, TEST_TRACKS)):
        (root / f"info/{part}_name.txt").write_text("".join(frame + "\n" for frame in frames))
        table = {f"track_{part}_info": np.array(tracks, np.float64)}
        savemat(root / f"info/tracks_{part}_info.mat", table, do_compression=True)
        for number, frame in enumerate(frames):
            write.image(root / f"bbox_{part}" / frame[:4] / frame, seed=number, size=(128, 256))
    savemat(root / "info/query_IDX.mat", {"query_IDX": np.array([[4]], np.uint16)})
    return root


def test_mars(mars):
    data = load("mars")
    assert data.classes == ("0001", "0003")
    assert data.labels.tolist() == [0, 0, 0, 1]
    assert data.inputs.shape == (4, 3, 256, 256)
    assert data.inputs[0].shape == (3, 256, 256)
    assert data.tracklets.start.tolist() == [0, 2, 3]
    assert data.tracklets.stop.tolist() == [2, 3, 4]
    assert data.tracklets.identity.tolist() == [1, 1, 3]
    assert data.tracklets.camera.tolist() == [1, 2, 1]
    assert data.tracklets.query.tolist() == []
    test = data.test
    assert test.classes == ("00-1", "0000", "0002")
    assert test.labels.tolist() == [0, 1, 1, 2, 2]
    assert test.tracklets.identity.tolist() == [-1, 0, 2, 2]
    assert test.tracklets.query.tolist() == [3]
    assert test.tracklets.camera[test.tracklets.query].tolist() == [5]
    first = test.tracklets.start[1]
    assert test.inputs.names[first] == "bbox_test/0000/0000C1T0001F001.jpg"


@pytest.mark.parametrize(
    ("tracks", "said"),
    [
        ([[0, 2, 1, 1]], "tracklet 1 runs from 0 to 2 of 4"),
        ([[1, 2, 1, 1], [4, 5, 3, 1]], "tracklet 2 runs from 4 to 5"),
        ([[2, 1, 1, 1]], "tracklet 1"),
        ([[1, 2, 3, 1]], "tracklet 1 is of person 3"),
        ([[1, 2, 1]], "(1, 3)"),
        ([[1.5, 2, 1, 1]], "whole numbers"),
        ([[np.nan, 2, 1, 1]], "whole numbers"),
    ],
)
def test_wrong_tables_are_refused(mars, refused, tracks, said):
    savemat(mars / "info/tracks_train_info.mat", {"track_train_info": np.array(tracks, float)})
    assert said in refused(load, "mars")


def test_damaged_files_are_refused(mars, refused):
    path = mars / "info/tracks_test_info.mat"
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-9], b"MATLAB 7.3 MAT-file" + bytes(200)):
        path.write_bytes(content)
        assert "tracks_test_info.mat" in refused(load, "mars")
    savemat(path, {"other": np.zeros(3)})
    assert "no such table" in refused(load, "mars")
    path.unlink()
    assert "no such file" in refused(load, "mars")


def test_a_query_that_is_not_there(mars, refused):
    savemat(mars / "info/query_IDX.mat", {"query_IDX": np.array([[5]])})
    assert "no tracklet 5" in refused(load, "mars")


def test_names_that_leave_the_folder(mars, refused):
    for name in ("../../../etc/passwd", "/etc/passwd", "a/b.jpg", "x"):
        (mars / "info/train_name.txt").write_text("\n".join([name, *TRAIN[1:]]))
        assert "train_name.txt, line 1" in refused(load, "mars")
