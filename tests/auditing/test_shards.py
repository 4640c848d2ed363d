"""Scores in several files give the audit of one table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pyrite
from pyrite.auditing import open_shards
from tests.children import run

CLASSES = 5
CUTS = [700, 701, 1900]  # of shards with other numbers of rows, one of them with a single one


def made(rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    true = draws.integers(CLASSES, size=rows)
    labels = np.where(draws.random(rows) < 0.2, draws.integers(CLASSES, size=rows), true)
    return (4 * np.eye(CLASSES)[true] + draws.normal(size=(rows, CLASSES))).astype(np.float32), labels


def write_shards(folder: Path, scores: np.ndarray, ending: str) -> str:
    """Numbers from 8 to 11: in the order of texts, 10 would come before 8."""
    for number, part in enumerate(np.split(scores, CUTS), 8):
        path = folder / f"scores-{number}.{ending}"
        if ending == "npy":
            np.save(path, part)
        else:
            pd.DataFrame(part, columns=list("abcde")).to_parquet(path, row_group_size=500)
    return str(folder / f"scores-*.{ending}")


@pytest.mark.parametrize("ending", ["npy", "parquet"])
@pytest.mark.parametrize("fitted", [2_000_000, 5_000])  # all rows, and 1,000 of them
def test_the_audit_of_one_table(ending: str, fitted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.auditing.from_scores._FITTED", fitted)
    monkeypatch.setattr("pyrite.auditing.score_tables._BLOCK", 997)  # blocks that cross the ends of shards
    scores, labels = made()
    shards = open_shards(write_shards(tmp_path, scores, ending))
    assert shards is not None
    assert (len(shards), shards.shape) == (3000, (3000, CLASSES))
    np.testing.assert_array_equal(shards[650:1000], scores[650:1000])
    one, many = (pyrite.audit(labels, scores=each, kind="logits") for each in (scores, shards))
    for name in ("score", "choices", "likelihoods", "matrix"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name))
    assert (many.noise_rate, many.noise_interval) == (one.noise_rate, one.noise_interval)


def test_on_the_command_line(tmp_path: Path) -> None:
    scores, labels = made()
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "whole.npy", scores)
    pattern = write_shards(tmp_path, scores, "npy")
    written = []
    for name, source in (("one", str(tmp_path / "whole.npy")), ("many", pattern)):
        words = ["--labels", str(tmp_path / "labels.npy"), "--kind", "logits", "--out", str(tmp_path / name)]
        code, said = run("audit", "--scores", source, *words, log=tmp_path / "log")
        assert code == 0, said
        written.append((tmp_path / name / "suspects.csv").read_bytes())
    assert written[0] == written[1]
    (tmp_path / "scores-10.npy").unlink()
    code, said = run("audit", "--scores", pattern, *words, log=tmp_path / "log")
    assert (code, said) == (
        2, f"pyrite: {tmp_path}/scores-10.npy is missing, but {tmp_path}/scores-11.npy exists\n",
    )  # fmt: skip


def same(one: pyrite.Audit, other: pyrite.Audit) -> None:
    for name in ("score", "choices", "likelihoods", "is_suspect"):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
    np.testing.assert_allclose(other.matrix, one.matrix, rtol=1e-12)  # sums of other blocks
    assert (other.noise_rate, other.noise_interval) == (one.noise_rate, one.noise_interval)
    np.testing.assert_array_equal(other.probabilities(one.score), one.probabilities(one.score))


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_chunks_of_dask(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.array

    scores, labels = made()
    monkeypatch.setattr("pyrite.auditing.from_scores._FITTED", 5_000)
    monkeypatch.setattr("pyrite.auditing.score_tables._CHUNK", 4 * CLASSES * 333)  # several chunks of a file
    shards = open_shards(write_shards(tmp_path, scores, ending))
    assert shards is not None
    one = pyrite.audit(labels, scores=scores, kind="logits")
    with dask.config.set(scheduler="synchronous"):
        assert len(shards.to_dask().chunks[0]) > len(CUTS) + 1
        for table in (shards.to_dask(), dask.array.from_array(scores, chunks=(800, 2))):
            same(one, pyrite.audit(labels, scores=table, kind="logits"))
        broken = scores.copy()
        broken[2345, 1] = np.nan
        table = dask.array.from_array(broken, chunks=(700, CLASSES))
        with pytest.raises(pyrite.PyriteError, match="scores are nan in row 2345"):
            pyrite.audit(labels, scores=table, kind="logits")
        with pytest.raises(pyrite.PyriteError, match="compute_chunk_sizes"):
            pyrite.audit(labels, scores=table[table[:, 0] > 0], kind="logits")
        with pytest.raises(pyrite.PyriteError, match="average the models first"):
            pyrite.audit(labels, scores=[shards.to_dask(), scores], kind="logits")


@pytest.mark.slow
def test_two_workers_of_dask(tmp_path: Path) -> None:
    from distributed import LocalCluster

    scores, labels = made()
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "whole.npy", scores)
    words = ["--labels", str(tmp_path / "labels.npy"), "--kind", "logits"]
    sources = {"one": [str(tmp_path / "whole.npy")], "many": [write_shards(tmp_path, scores, "npy")]}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        sources["many"] += ["--dask", cluster.scheduler_address]
        for name, source in sources.items():
            code, said = run("audit", "--scores", *source, *words, "--out", str(tmp_path / name), log=tmp_path / "log")
            assert code == 0, said
    one, many = ((tmp_path / name / "suspects.csv").read_bytes() for name in sources)
    assert one == many
    code, said = run("audit", "--scores", *sources["many"], *words, log=tmp_path / "log")
    assert code == 2
    assert "no Dask scheduler answers at" in said


def test_shards_that_do_not_fit(tmp_path: Path) -> None:
    scores, _ = made()
    pattern = write_shards(tmp_path, scores, "npy")
    np.save(tmp_path / "scores-9.npy", scores[:1, :4])
    with pytest.raises(pyrite.PyriteError, match=r"scores-9.npy has 4 columns of scores, but .*scores-8.npy has 5"):
        open_shards(pattern)
    (tmp_path / "scores-9.npy").write_bytes(b"no numbers")
    with pytest.raises(pyrite.PyriteError, match=r"cannot read .*scores-9.npy"):
        open_shards(pattern)
    with pytest.raises(pyrite.PyriteError, match=r"no file has a name like"):
        open_shards(tmp_path / "absent-*.npy")
    assert open_shards(tmp_path / "scores-8.npy") is None
    (tmp_path / "scores-8.parquet").write_bytes(b"PAR1")
    with pytest.raises(pyrite.PyriteError, match=r"not a Parquet file"):
        open_shards(tmp_path / "*.parquet")


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    scores, labels = made()
    frame = pd.DataFrame(scores, columns=list("abcde"))
    other = frame[list("edcba")]
    expected = pyrite.audit(labels, scores=scores, kind="logits", classes=list("abcde"))
    for number, part in enumerate((frame[:1000], other[1000:2000], frame.reset_index()[2000:].drop(columns="index"))):
        part.to_parquet(tmp_path / f"s-{number}.parquet", index=False)
    shards = open_shards(tmp_path / "s-*.parquet")
    texts = np.array(list("abcde"), object)[labels]
    for same in (shards, frame, other.reset_index()):
        found = pyrite.audit(texts, scores=same, kind="logits", classes=list("abcde"))
        np.testing.assert_array_equal(found.ranking, expected.ranking)
    one, two = (pyrite.audit(texts, scores=[frame, second], kind="logits") for second in (scores, other))
    np.testing.assert_array_equal(one.ranking, two.ranking)
    assert pyrite.audit(texts, scores=shards, kind="logits").classes == tuple("abcde")
    with pytest.raises(pyrite.PyriteError, match=r"not all models have scores of the class 'e'"):
        pyrite.audit(texts, scores=[frame, frame[list("abcd")]], kind="logits")
    frame[list("abcd")].to_parquet(tmp_path / "s-3.parquet", index=False)
    with pytest.raises(pyrite.PyriteError, match=r"s-3.parquet has the columns 'a', 'b', 'c', 'd', but must"):
        open_shards(tmp_path / "s-*.parquet")


def test_whole_numbers_with_a_gap_in_a_later_row_group(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array([1, 2, 3, None], "Int64"), "b": pd.array([4, 3, 2, 1], "Int64")})
    frame.to_parquet(tmp_path / "s-0.parquet", row_group_size=2, index=False)
    shards = open_shards(tmp_path / "s-*.parquet")
    assert shards is not None
    np.testing.assert_array_equal(shards[:], [[1, 4], [2, 3], [3, 2], [np.nan, 1]])


def test_rows_in_another_order_are_refused() -> None:
    scores, labels = made()
    frame = pd.DataFrame(scores, columns=list("abcde"))
    shuffled = frame.sample(frac=1, random_state=0)
    with pytest.raises(pyrite.PyriteError, match=r"scores has the same index as the samples, but in another order"):
        pyrite.audit(pd.Series(labels), scores=shuffled, kind="logits")
    with pytest.raises(pyrite.PyriteError, match=r"the column 'index' of the scores does not number the rows"):
        pyrite.audit(labels, scores=shuffled.reset_index(), kind="logits")
    with pytest.raises(pyrite.PyriteError, match=r"label has the same index as the samples, but in another order"):
        pyrite.data.load(shuffled, label=pd.Series(labels))
    alike = pyrite.audit(pd.Series(labels)[shuffled.index], scores=shuffled, kind="logits")
    np.testing.assert_array_equal(
        shuffled.index[alike.ranking[:50]], pyrite.audit(labels, scores=frame, kind="logits").ranking[:50]
    )
