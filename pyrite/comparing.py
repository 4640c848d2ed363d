"""The same training with several losses or methods, side by side, one after the other or in several processes."""

import json
import multiprocessing
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from statistics import mean, stdev
from time import sleep
from typing import Any, NamedTuple, TypeVar, Unpack, final

import torch
from torch import nn

from pyrite.checks import whole_number
from pyrite.data import Data
from pyrite.errors import PyriteError
from pyrite.files import one_at_a_time, write
from pyrite.losses import LOSSES, loss as read_loss
from pyrite.methods import ERM, METHODS, Method
from pyrite.processes import join, rank
from pyrite.settings import Settings
from pyrite.spec import build, nearest
from pyrite.text_tables import Table
from pyrite.training import (
    COLUMNS,
    InUse,
    Observer,
    Run,
    RunFailed,
    Watching,
    given_settings,
    read_once,
    resolve,
    train_once,
)

Task = TypeVar("Task")
Result = TypeVar("Result")
_PAUSE = 1.0  # seconds until a run in which another process trains is looked at again
_LONGEST = 150  # characters of a folder's name; file systems allow 255


def run_grid(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    *,
    workers: int = 1,
    begin: Callable[[Task], None] = lambda task: None,
) -> Iterator[tuple[Task, Result]]:
    """Every task with its result, in the order in which they are finished. Workers are processes of one thread each.

    A run that another process trains in, on this machine or another one with the same folder, is taken up last: when
    that process is done, its result is read.
    """
    waiting, begun = list(range(len(tasks))), set[int]()

    def start(number: int) -> Task:
        begin(tasks[number]) if number not in begun else sleep(_PAUSE)
        begun.add(number)
        return tasks[number]

    if whole_number("workers", workers, least=1) == 1 or len(tasks) < 2:
        while waiting:
            number = waiting.pop(0)
            try:
                result = work(start(number))
            except InUse:
                waiting.append(number)
            else:
                yield tasks[number], result
        return
    # A process that is forked while torch's threads run may never return, hence "spawn".
    context = multiprocessing.get_context("spawn")
    running = dict[Future[Result], int]()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    number = waiting.pop(0)
                    running[pool.submit(work, start(number))] = number
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number = running.pop(future)
                    if isinstance(future.exception(), InUse):
                        waiting.append(number)
                    else:
                        yield tasks[number], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def check_many(command: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that cannot be the same in many runs."""
    for name in ("method", "loss", "resume", "observers", "stop"):
        if settings.get(name) is not None:
            raise PyriteError(f"{command} has no {name}: it trains several runs with several methods")
    if isinstance(settings.get("model"), nn.Module):
        raise PyriteError("model is a network that all runs would share: pass a spec string or a factory")


def train_command(data: str, settings: Mapping[str, Any]) -> str:
    """``pyrite train`` with one flag per setting, as it is typed.

    >>> train_command("digits", {"lr": 0.1, "mirror": False, "samples": None})
    'pyrite train digits --lr 0.1 --no-mirror'
    """
    words = ["pyrite", "train", data]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return shlex.join(words)


def mean_and_deviation(values: Sequence[float], formatted: Callable[[float], str]) -> str:
    """The mean, with the standard deviation where there are several values."""
    return " ± ".join(map(formatted, [mean(values), stdev(values)] if len(values) > 1 else [mean(values)]))


def write_results(folder: Path, table: str, markdown: str, facts: str, values: object) -> None:
    """Write a table as Markdown and what programs read as JSON, while no other process writes them."""
    try:
        with one_at_a_time(folder):
            write(folder / table, markdown.encode())
            write(folder / facts, (json.dumps(values, indent=2) + "\n").encode())
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror or error}; the runs are complete") from None


@final
@dataclass(frozen=True)
class Row:
    """One method with its runs in the order of their seeds, and the same runs without noise if they were trained."""

    name: str
    runs: tuple[Run, ...]
    clean: tuple[Run, ...] = ()

    @property
    def tables(self) -> list[dict[str, float | None]]:
        """The table of every run, with ``diff``: the final test accuracy without noise, minus that with it."""
        tables = [dict(run.table) for run in self.runs]
        for table, clean in zip(tables, self.clean, strict=False):
            reached, left = clean.table.get("final_test_accuracy"), table.get("final_test_accuracy")
            table["diff"] = None if reached is None or left is None else reached - left
        return tables

    def values(self, column: str) -> list[float]:
        """A column's value in every run that has it."""
        return [value for table in self.tables if (value := table.get(column)) is not None]

    def formatted(self, column: str) -> str:
        """The mean over the seeds, with the standard deviation where there are several; fractions in per cent."""
        values = self.values(column)
        return mean_and_deviation(values, COLUMNS[column].formatted) if values else "unknown"


@final
@dataclass(frozen=True)
class Comparison:
    """The results of several methods, trained with the same settings.

    Attributes:
        path: the folder with one run per method and seed.
        rows: one row per method, with its runs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     both = compare("digits", ["ce", "mae"], model="linear", epochs=1, samples=200, out=folder)
    ...     [row.name for row in both.rows]
    ['ce', 'mae']
    """

    path: Path
    rows: tuple[Row, ...]

    def columns(self, names: Sequence[str] = ()) -> dict[str, str]:
        """Columns with their headings: those with the given names, or the default columns that any run has."""
        if names:
            return {name: COLUMNS[name].heading for name in check_columns(names)}
        usual = [name for name, column in COLUMNS.items() if column.by_default]
        known = {name: COLUMNS[name].heading for name in usual if any(row.values(name) for row in self.rows)}
        if "clean_accuracy" in known:  # which is of interest, where right labels are known
            del known["train_accuracy"]
        return known

    def table(self, names: Sequence[str] = ()) -> Table:
        """A table with one row per method; fractions are in per cent. ``names`` selects columns of ``COLUMNS``."""
        columns = self.columns(names)
        rows = tuple((row.name, *(row.formatted(name) for name in columns)) for row in self.rows)
        return Table(("loss", *columns.values()), rows)

    def __repr__(self) -> str:
        return f"<comparison {self.path}: {', '.join(row.name for row in self.rows)}>"

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def to_markdown(self) -> str:
        """The table, as Markdown."""
        return self.table().to_markdown()

    def to_dict(self) -> dict[str, Any]:
        """The table of every run as plain values, ready for JSON."""
        rows = [
            {"method": row.name, "seed": run.config.seed, "run": str(run.path), **table}
            | {"warnings": run.facts["warnings"]}
            for row in self.rows
            for run, table in zip(row.runs, row.tables, strict=True)
        ]
        return {"path": str(self.path), "rows": rows}


def check_columns(names: Sequence[str]) -> Sequence[str]:
    """The names, if all are columns of a run's table."""
    for name in names:
        if name not in COLUMNS:
            raise PyriteError(f"unknown column {name!r}: {nearest(name, COLUMNS)}")
    return names


def compare(
    data: Data,
    methods: Sequence[object],
    *,
    out: str | Path,
    seeds: int = 1,
    with_clean: bool = False,
    workers: int = 1,
    begin: Callable[[str, int], None] = lambda name, seed: None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[Settings],
) -> Comparison:
    """Train several losses or methods on the same data, noise and seeds, and compare the results.

    Runs in ``out`` are not trained again: finished runs are read, and unfinished runs are continued. A run with
    different options raises an error.

    Args:
        data: as for ``train``.
        methods: losses or methods, as spec strings or as objects.
        out: the folder for the run directories, ``table.md`` and ``comparison.json``.
        seeds: the number of seeds, starting at ``seed`` (0 by default).
        with_clean: whether to train every method without the noise too, which adds the column ``diff``.
        workers: the number of parallel runs; with several workers, each run uses one thread.
        begin: called before each run is trained, with the name of the method and the seed.
        progress, observers: as for ``train``.
        options: those of ``train``.

    Returns:
        The runs and their table; ``print`` displays the table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = compare("digits", ["ce", "gce(q=0.7)"], model="linear", epochs=1, samples=200, out=folder).table()
    >>> table.rows[1][0]
    'gce(q=0.7)'
    """
    if not methods:
        raise PyriteError("methods is empty: name at least one loss or method")
    seeds = whole_number("seeds", seeds, least=1)
    check_many("compare", options)
    given = given_settings(options)
    first = whole_number("seed", given.get("seed", 0), least=0)
    if with_clean and not given.get("noise"):
        raise PyriteError("with_clean compares with runs without noise, but noise is not set: pass noise")
    named = _named(methods)
    data, options = read_once(data, options)
    folder = Path(out)
    join(str(given.get("device", "auto")))
    tasks = [
        _Task(name, seed, method, folder / f"{slug}{'-clean' * clean}-{seed}", clean)
        for (name, method), slug in zip(named.items(), _slugs(named), strict=True)
        for seed in range(first, first + seeds)
        for clean in ((False, True) if with_clean else (False,))
    ]
    # First those that are there: if one is of other data, nothing has been trained when that is reported.
    tasks.sort(key=lambda task: not (task.out / "recipe.toml").exists())
    watching: Watching = {"progress": progress if workers == 1 else False, "observers": observers}
    train = partial(_train, data=data, options=options, watching=watching)
    found = run_grid(tasks, train, workers=workers, begin=lambda task: begin(task.name, task.seed))
    runs = {task.out: run for task, run in found}
    of = {key: tuple(runs[t.out] for t in tasks if (t.name, t.clean) == key) for key in product(named, (False, True))}
    comparison = Comparison(folder, tuple(Row(name, of[name, False], of[name, True]) for name in named))
    if rank() == 0:
        write_results(folder, "table.md", comparison.to_markdown(), "comparison.json", comparison.to_dict())
    return comparison


class _Task(NamedTuple):
    """One run of a comparison."""

    name: str
    seed: int
    method: Method
    out: Path
    clean: bool


def _train(task: _Task, data: Data, options: Settings, watching: Watching) -> Run:
    settings: Settings = {**options, "method": task.method, "seed": task.seed}
    if task.clean:
        settings["noise"] = "clean"
    return train_once(resolve(data, **settings), task.out, **watching)


def _named(methods: Sequence[object]) -> dict[str, Method]:
    """Losses and methods by their names in the table."""
    named: dict[str, Method] = {}
    for item in methods:
        method = loss_or_method(item)
        name = str(item if isinstance(item, str | Method) else read_loss(item))
        if name in named and not isinstance(item, str):
            raise PyriteError(f"methods has two entries named {name!r}: name them with pyrite.register")
        named[name] = method
    return named


def loss_or_method(what: object, more: dict[str, Callable[..., Any]] | None = None) -> Method:
    """A method, or plain training with a loss, from an object or a spec string in which ``more`` has a meaning too."""
    if isinstance(what, str):
        names = more or {}
        what = build(what, LOSSES | METHODS | names, "method", nested=METHODS | LOSSES | names)
    return what if isinstance(what, Method) else ERM(read_loss(what))


def _slugs(names: Iterable[str]) -> list[str]:
    """File names made from these names, no two of them the same.

    >>> _slugs(["smooth(ce, rate=0.5)", "smooth(ce, rate=-0.5)"])
    ['smooth-ce-rate-0.5', 'smooth-ce-rate-0.5-2']
    """
    taken: list[str] = []
    for name in names:
        slug = re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")[:_LONGEST]
        numbered = (slug if number == 1 else f"{slug}-{number}" for number in count(1))
        taken.append(next(one for one in numbered if one not in taken))
    return taken
