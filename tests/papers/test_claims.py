"""Claims: intervals against scipy's, and what follows from them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_rel

from pyrite.papers.cells import Cell, CellResult
from pyrite.papers.claims import CLAIMS, Results, Verdict, evaluate
from pyrite.papers.recipe import Check, Claimed

AXES = {"noise": ["clean", "40 %"], "loss": ["CE", "MAE", "IMAE"]}
DRAW = np.random.default_rng(0)
NUMBERS = {
    (noise, loss): DRAW.normal(mean, 0.01, 5)
    for (noise, loss), mean in {
        ("clean", "CE"): 0.9, ("clean", "MAE"): 0.8, ("clean", "IMAE"): 0.9,
        ("40 %", "CE"): 0.5, ("40 %", "MAE"): 0.6, ("40 %", "IMAE"): 0.7,
    }.items()
}  # fmt: skip


def results(numbers: Mapping[tuple[str, str], Any] = NUMBERS, seeds: int = 5) -> Results:
    def cell(value: float) -> CellResult:
        facts = {"final": {"final_test_accuracy": value, "snr": value**2}, "history": {"alpha": [0.4, 0.8, value]}}
        return CellResult(Cell({"data": "digits", "seed": 0}), facts)

    cells = {(place, seed): cell(float(values[seed])) for place, values in numbers.items() for seed in range(seeds)}
    return Results(AXES, cells, {"ResNet56"})


def verdict(found: Results | None = None, **check: Any) -> Verdict:
    outcome = evaluate(Claimed(id="I1", checks=[Check(**check)]), found or results(), "tiny")
    assert outcome is not None
    return outcome


def test_the_interval_is_that_of_paired_differences() -> None:
    (finding,) = verdict(more="IMAE, 40 %", less="CE, 40 %").findings
    expected = ttest_rel(NUMBERS["40 %", "IMAE"], NUMBERS["40 %", "CE"]).confidence_interval(0.95)
    assert (finding.low, finding.high) == pytest.approx((expected.low, expected.high))
    assert finding.mean == pytest.approx((NUMBERS["40 %", "IMAE"] - NUMBERS["40 %", "CE"]).mean())
    assert (finding.status, finding.seeds) == ("holds", 5)


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"more": "IMAE, 40 %", "less": "CE, 40 %", "by": 0.1}, "holds"),
        ({"more": "IMAE, 40 %", "less": "CE, 40 %", "by": 0.3}, "does not hold"),
        ({"more": "IMAE, 40 %", "less": "CE, 40 %", "by": 0.2}, "undecided"),
        ({"more": "CE, clean", "less": "IMAE, clean", "within": 0.03}, "holds"),
        ({"more": "CE, clean", "less": "MAE, clean", "within": 0.03}, "does not hold"),
        ({"more": "CE, clean", "than": 0.85}, "holds"),
        ({"less": "CE, clean", "than": 0.85}, "does not hold"),
        # Noise costs cross entropy more than IMAE: a difference of differences.
        ({"more": "IMAE, 40 %", "less": "CE, 40 %", "beyond": ["IMAE, clean", "CE, clean"]}, "holds"),
        ({"column": "diff", "more": "CE, 40 %", "than": 0.35}, "holds"),
        ({"column": "alpha_most", "more": "CE, 40 %", "than": 0.79}, "holds"),
        ({"correlation": ["snr", "final_test_accuracy"], "by": 0.9}, "holds"),
        ({"correlation": ["snr", "-final_test_accuracy"]}, "does not hold"),
        ({"more": "ResNet56, IMAE", "less": "CE"}, "not run"),
        ({"column": "no_such", "more": "IMAE", "less": "CE"}, "not run"),
    ],
)
def test_statuses(check: dict[str, Any], status: str) -> None:
    assert verdict(**check).outcome == status


def test_an_axis_that_is_not_named_is_gone_through() -> None:
    found = verdict(more="IMAE", less="CE")
    assert [finding.status for finding in found.findings] == ["undecided", "holds"]
    assert found.status == "undecided"
    assert verdict(more="MAE", less="CE").status == "does not hold"  # with clean labels


def test_one_seed_decides_nothing() -> None:
    assert verdict(results(seeds=1), more="IMAE, 40 %", less="CE, 40 %").status == "undecided"


def test_the_correlation_is_scipys() -> None:
    (finding,) = verdict(correlation=["diff", "final_test_accuracy"], more="40 %").findings
    assert finding.status == "not run"  # three points are too few
    (finding,) = verdict(correlation=["diff", "final_test_accuracy"]).findings
    places = [("clean", loss) for loss in AXES["loss"]] + [("40 %", loss) for loss in AXES["loss"]]
    per_seed = [
        spearmanr(
            [NUMBERS["clean", loss][seed] - NUMBERS[noise, loss][seed] for noise, loss in places],
            [NUMBERS[place][seed] for place in places],
        ).statistic
        for seed in range(5)
    ]
    assert finding.mean == pytest.approx(np.mean(per_seed))
    (finding,) = verdict(results(seeds=2), correlation=["diff", "final_test_accuracy"]).findings
    assert finding.low == -1.0  # Student's interval of two values goes to -1.3


def test_the_best_label_moves() -> None:
    numbers = {**NUMBERS, ("clean", "CE"): np.full(5, 0.99)}
    (finding,) = verdict(results(numbers), best="loss", more="40 %", less="clean").findings
    assert (finding.mean, finding.status) == (2.0, "holds")  # from the first loss to the third


def test_a_label_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match=r"'80 %' in 'IMAE, 80 %' is not the label of one axis"):
        verdict(more="IMAE, 80 %", less="CE")


def test_a_claim_for_other_scales() -> None:
    claimed = Claimed(id="I1", checks=[Check(more="IMAE", less="CE", scales=["paper"])])
    assert evaluate(claimed, results(), "tiny") is None


def test_all_claims_are_there() -> None:
    counts = {letter: sum(name[0] == letter for name in CLAIMS) for letter in "ICR"}
    assert counts == {"I": 18, "C": 18, "R": 14}


def test_labels_with_a_bar_between_them_are_gone_through() -> None:
    found = verdict(more="IMAE, clean | 40 %", less="MAE | CE").findings
    pairs = [("clean", "MAE"), ("clean", "CE"), ("40 %", "MAE"), ("40 %", "CE")]
    assert [finding.words for finding in found] == [
        f"final_test_accuracy of IMAE {noise} minus {noise} {loss}, above 0" for noise, loss in pairs
    ]


def test_far_from_the_papers_conditions_nothing_is_decided() -> None:
    claimed = Claimed(id="I1", checks=[Check(more="IMAE, 40 %", less="CE")])
    near, far = evaluate(claimed, results(), "tiny"), evaluate(claimed, results(), "tiny", ["1 % of the steps"])
    assert near is not None
    assert far is not None
    assert (near.status, near.outcome, near.words) == ("holds", "holds", "holds")
    assert (far.status, far.outcome) == ("not tested in the paper's conditions", "holds")
    assert far.words == "not tested in the paper's conditions; 1 of 1 statements hold here"
    missing = evaluate(Claimed(id="I1", checks=[Check(more="ResNet56", less="CE")]), results(), "tiny", ["length"])
    assert missing is not None
    assert missing.status == "not run"
