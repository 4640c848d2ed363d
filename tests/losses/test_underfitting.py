"""The check against the curriculum paper's measured accuracies, and its numbers against closed forms."""

import math

import pytest

import pyrite

# Table 2, CIFAR-100 without noise, cross entropy 71.02: the loss, its test accuracy.
TABLE_2 = {
    "ce": 71.02,
    "sce(q=0.7)": 71.11,
    "gce(q=0.3)": 70.14,
    "aul(a=1.1, q=5)": 59.62,
    "agce(a=0.1, q=0.1)": 51.33,
    "mae": 9.85,
    "aul(a=3.0, q=0.7)": 8.67,
    "agce(a=1.6, q=2)": 3.82,
}


@pytest.mark.parametrize(("spec", "accuracy"), TABLE_2.items())
def test_verdict_agrees_with_what_was_measured(spec: str, accuracy: float) -> None:
    expected = "trains" if accuracy > 65 else "slow" if accuracy > 40 else "underfits"
    assert pyrite.underfitting(spec, classes=100).verdict == expected


def test_with_ten_classes_they_all_train() -> None:
    """The same table: on CIFAR-10 every loss reaches 86 to 93 %."""
    assert all(pyrite.underfitting(spec, classes=10).verdict in ("trains", "slow") for spec in TABLE_2)


def test_nce_fades() -> None:
    found = pyrite.underfitting("nce", classes=100)
    assert found.verdict == "fades"
    assert "the weight at the same margin is" in str(found)


def test_numbers() -> None:
    found = pyrite.underfitting("mae", classes=100)
    p = 1 / (1 + math.exp(-pyrite.expected_margin(100)))
    assert found.initial == pytest.approx(4 * p * (1 - p), rel=1e-5)
    assert found.initial_ce == pytest.approx(1 - p, rel=1e-5)
    assert (found.kept, found.hard, found.learned) == (1.0, pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9))
    imae = pyrite.underfitting("imae(T=8)", classes=100)
    assert imae.learned == imae.hard == pytest.approx(math.exp(-2), rel=1e-6)
    assert "without bound" in str(imae)
    assert "both together reduce its accuracy" in str(imae)


def test_cures_start_with_a_quarter_of_the_peak() -> None:
    for spec in ("mae", "agce(a=0.1, q=0.1)", "aul(a=1.1, q=5)", "imae(T=8)"):
        cures = pyrite.underfitting(spec, classes=100).cures
        assert len(cures) == 2
        for cure in cures:
            assert pyrite.underfitting(cure, classes=100).initial == pytest.approx(0.25, abs=5e-3)
            assert pyrite.underfitting(cure, classes=100).verdict == "trains"


def test_a_loss_that_is_no_curve_is_measured_by_its_gradient() -> None:
    """normalised(mae) is MAE over the constant 2(K - 1): the simulation must say what the curve says."""
    by_formula = pyrite.underfitting("mae", classes=20)
    by_gradient = pyrite.underfitting("normalised(mae)", classes=20)
    assert by_gradient.initial == pytest.approx(by_formula.initial, rel=1e-6)
    assert by_gradient.kept == pytest.approx(1, rel=1e-6)


def test_two_classes() -> None:
    assert pyrite.underfitting("mae", classes=2).verdict == "trains"


def test_peer_loss_is_looked_at_on_average() -> None:
    """With cross entropy and alpha = 1 the average is mean(s) - s_y: every sample has the weight 1 - 1/K, anywhere."""
    found = pyrite.underfitting("0.5*peer(ce, alpha=1)", classes=10)
    assert found.looked_at == "0.5*confidence(ce, beta=1)"
    assert "averaged over peers" in str(found)
    assert (found.initial, found.kept, found.hard) == pytest.approx((1, 1, 1))
    assert found.weight_far_right == pytest.approx(0.45)
    mae = pyrite.underfitting("peer(mae, alpha=1)", classes=10)
    assert mae.initial == pytest.approx(pyrite.underfitting("mae", classes=10).initial, rel=1e-6)  # it is symmetric


@pytest.mark.parametrize("spec", ["ce(weight=[1.0, 2.0, 3.0])", "mae(weight=[1.0, 2.0]) + nce(weight=[1.0, 2.0])"])
def test_class_weights_are_not_passed_over_in_silence(spec: str) -> None:
    with pytest.raises(ValueError, match="class weights scale"):
        pyrite.underfitting(spec, classes=3)


def test_what_has_no_part_in_the_check_does_not_disturb_it() -> None:
    plain, summed = (pyrite.underfitting(spec, classes=100).to_dict() for spec in ("mae", "mae(reduction='sum')"))
    assert {**summed, "loss": "mae"} == plain
    assert plain["cures"]
