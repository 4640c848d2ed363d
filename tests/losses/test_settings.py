"""The settings of the papers as spec strings, against the printed formulas (errata corrected: docs/losses.md)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import pyrite
from pyrite.losses import PAPER_SETTINGS

CARDS = Path(__file__).parents[2] / "docs" / "losses.md"
SPECS = {spec: name for name, settings in PAPER_SETTINGS.items() for spec in settings}

Printed = Callable[[Tensor, Tensor], Tensor]


def gce(q: float) -> Printed:
    return lambda p, every: (1 - p**q) / q


def sce(q: float) -> Printed:
    return lambda p, every: (1 - q) * -p.log() + q * (1 - p)


def aul(a: float, q: float) -> Printed:
    return lambda p, every: ((a - p) ** q - (a - 1) ** q) / q


def agce(a: float, q: float) -> Printed:
    return lambda p, every: ((a + 1) ** q - (a + p) ** q) / q


def nce_and_mae(q: float) -> Printed:
    return lambda p, every: (1 - q) * (-p.log() / -every.log().sum(1)) + q * (1 - p)


# Ou & Zhang, Table 1, with the parameters of their Tables 8 and 12; p is the label's probability, every those of all.
PRINTED = {
    "gce(q=0.3)": gce(0.3),
    "gce(q=0.4)": gce(0.4),
    "gce(q=0.7)": gce(0.7),
    "sce(q=0.7)": sce(0.7),
    "sce(q=0.95)": sce(0.95),
    "aul(a=1.1, q=5)": aul(1.1, 5),
    "aul(a=3, q=0.7)": aul(3, 0.7),
    "aul(a=2, q=2)": aul(2, 2),
    "agce(a=0.1, q=0.1)": agce(0.1, 0.1),
    "agce(a=1.6, q=2)": agce(1.6, 2),
    "agce(a=3, q=4)": agce(3, 4),
    "0.7*nce + 0.15*mae": nce_and_mae(0.3),
    "boot_soft(beta=0.95)": lambda p, every: -(0.95 * p.log() + 0.05 * (every * every.log()).sum(1)),
    "boot_hard(beta=0.8)": lambda p, every: -(0.8 * p.log() + 0.2 * every.max(1).values.log()),
    "truncated_gce(q=0.7, k=0.5)": lambda p, every: (1 - p.clamp(min=0.5) ** 0.7) / 0.7,
}


@pytest.mark.parametrize("spec", PRINTED)
def test_the_printed_formula(spec: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(60, 6, dtype=torch.float64, generator=generator)
    labels = torch.arange(60) % 6
    every = scores.softmax(1)
    expected = PRINTED[spec](every.gather(1, labels[:, None]).squeeze(1), every)
    assert torch.allclose(pyrite.loss(spec, reduction="none")(scores, labels), expected, rtol=1e-9, atol=1e-12)


def test_weights_where_no_value_is_printed() -> None:
    """IMAE's Eq. 10 is a weight; Table 9 sets where the weight at the start is read: MAE's at margin -tau."""
    margin = torch.linspace(-5, 5, 11, dtype=torch.float64)
    p = margin.sigmoid()
    for T in (8, 0.5):  # noqa: N806
        assert torch.allclose(pyrite.loss(f"imae(T={T})").weight_at(margin), (T * p * (1 - p)).exp() / 2)
    start = pyrite.expected_margin(100)
    for spec, of in (("mae", "mae"), ("agce(a=0.1, q=0.1)", "agce(a=0.1, q=0.1)")):
        curve = pyrite.loss(of)
        for setting in (*PAPER_SETTINGS["shift"], *PAPER_SETTINGS["scale"]):
            found = re.fullmatch(rf"\w+\({re.escape(spec)}, tau=([\d.]+), classes=100\)", setting)
            if found:
                at_start = pyrite.loss(setting).weight_at(torch.tensor(start, dtype=torch.float64))
                expected = curve.weight_at(torch.tensor(-float(found[1]), dtype=torch.float64))
                assert at_start == pytest.approx(float(expected), rel=1e-6), setting


def test_every_setting_is_tested() -> None:
    by_weight = {spec for spec, name in SPECS.items() if name in ("imae", "shift", "scale")}
    assert set(SPECS) == set(PRINTED) | by_weight


def test_settings_stand_on_the_cards() -> None:
    cards = dict(re.findall(r"^### `(\w+).*?`\n(.*?)(?=^##|\Z)", CARDS.read_text(), re.MULTILINE | re.DOTALL))
    assert set(PAPER_SETTINGS) <= set(pyrite.LOSSES)
    missing = [f"{spec} in {name}" for spec, name in SPECS.items() if f"`{spec}`" not in cards[name]]
    assert missing == []
