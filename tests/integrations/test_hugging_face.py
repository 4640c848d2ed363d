"""The loss in the real Trainer, on tiny nets that are made here: steps equal to those of one big batch, or of torch."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_outputs import (
    CausalLMOutputWithCrossAttentions,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

import pyrite
from pyrite.integrations import HFLoss

WORDS, LENGTH, CLASSES, BATCH = 30, 6, 4, 8


def bert(kind: Any) -> nn.Module:
    torch.manual_seed(0)
    return kind(  # type: ignore[no-any-return]
        BertConfig(
            vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
            num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def gpt() -> nn.Module:
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def samples(task: str) -> list[dict[str, Tensor]]:
    """Of single positions unevenly many are ignored, so that the mean of means would be another."""
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(WORDS, (BATCH, LENGTH), generator=draw)
    if task == "sequence":
        labels = torch.randint(CLASSES, (BATCH,), generator=draw)
    else:
        labels = words.clone() if task == "causal" else torch.randint(CLASSES, (BATCH, LENGTH), generator=draw)
        for row, ignored in enumerate([0, 5, 4, 0, 1, 5, 2, 6]):
            labels[row, :ignored] = -100
    return [{"input_ids": ids, "labels": label} for ids, label in zip(words, labels, strict=True)]


TASKS: dict[str, tuple[Callable[[], nn.Module], bool | None]] = {
    "sequence": (lambda: bert(BertForSequenceClassification), None),
    "token": (lambda: bert(BertForTokenClassification), None),
    "causal": (gpt, True),
}


def trainer(folder: Path, task: str, loss: Any, batch: int = BATCH, **options: Any) -> Trainer:
    settings = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=batch, gradient_accumulation_steps=BATCH // batch,
        per_device_eval_batch_size=3, max_steps=1, learning_rate=0.5, optim="sgd", lr_scheduler_type="constant",
        max_grad_norm=0, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0, logging_steps=1,
        dataloader_pin_memory=False, **options,
    )  # fmt: skip
    data: Any = samples(task)
    return Trainer(model=TASKS[task][0](), args=settings, train_dataset=data, eval_dataset=data, compute_loss_func=loss)


def weights_after_a_step(*arguments: Any, **options: Any) -> dict[str, Tensor]:
    made = trainer(*arguments, **options)
    made.train()
    assert made.model is not None
    return {name: value.detach().clone() for name, value in made.model.named_parameters()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(
            value, other[name], rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("spec", ["ce", "imae(T=8)"])
@pytest.mark.parametrize("task", list(TASKS))
def test_accumulated_steps_are_one_big_batch(task: str, spec: str, tmp_path: Path) -> None:
    """4 × 2 and 1 × 8 samples; and both are the step along the gradient of the mean, written out."""
    loss, counted = pyrite.hf_loss(spec, shift=TASKS[task][1]), set()

    def watched(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        counted.add(int(num_items_in_batch))
        return loss(outputs, labels, num_items_in_batch=num_items_in_batch)

    pieces = weights_after_a_step(tmp_path, task, watched, 2)
    assert_same(pieces, weights_after_a_step(tmp_path, task, loss, 8))
    model = TASKS[task][0]()
    parts = samples(task)
    scores = model(torch.stack([part["input_ids"] for part in parts])).logits
    labels = torch.stack([part["labels"] for part in parts])
    if task == "causal":
        scores, labels = scores[:, :-1], labels[:, 1:]
    counts = labels != -100
    # Of a causal model some versions of the Trainer count the first tokens too, which nothing predicts.
    (items,) = counted
    assert items in {int(counts.sum()), sum(int((part["labels"] != -100).sum()) for part in parts)}
    (pyrite.loss(spec, reduction="sum")(scores[counts], labels[counts]) / items).backward()
    by_hand = {
        name: value.detach() - 0.5 * (0 if value.grad is None else value.grad)
        for name, value in model.named_parameters()
    }
    assert_same(pieces, by_hand)
    before = dict(TASKS[task][0]().named_parameters())
    assert max(float((pieces[name] - value).abs().max().detach()) for name, value in before.items()) > 1e-3


@pytest.mark.parametrize("task", list(TASKS))
def test_cross_entropy_is_the_models_own(task: str, tmp_path: Path) -> None:
    loss = pyrite.hf_loss("ce", shift=TASKS[task][1])
    assert_same(weights_after_a_step(tmp_path, task, loss, 8), weights_after_a_step(tmp_path, task, None, 8))
    mine, theirs = (trainer(tmp_path, task, which).evaluate()["eval_loss"] for which in (loss, None))
    assert mine == pytest.approx(theirs, rel=1e-5)


def test_class_weights_are_those_of_the_big_batch(tmp_path: Path) -> None:
    weight = [1.0, 2.0, 0.5, 3.0]
    loss = pyrite.hf_loss("ce", weight=weight)
    assert_same(weights_after_a_step(tmp_path, "token", loss, 2), weights_after_a_step(tmp_path, "token", loss, 8))
    scores, labels = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, -100])
    every = F.cross_entropy(scores, labels, torch.tensor(weight), reduction="none")
    for items in (None, 4, torch.tensor(4)):
        assert float(loss((scores,), labels, num_items_in_batch=items)) == pytest.approx(float(every.sum()) / 4)


SCORES = torch.randn(2, 3, CLASSES, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[0, 1, 2], [-100, 3, -100]])
OWN = F.cross_entropy(SCORES.reshape(-1, CLASSES), LABELS.reshape(-1), reduction="sum")
NEXT = F.cross_entropy(SCORES[:, :-1].reshape(-1, CLASSES), LABELS[:, 1:].reshape(-1), reduction="sum")


@pytest.mark.parametrize(
    "outputs",
    [
        TokenClassifierOutput(logits=SCORES),
        {"logits": SCORES, "hidden_states": None},
        (SCORES, None),
        [SCORES],
        SCORES,
    ],
    ids=["output", "dict", "tuple", "list", "tensor"],
)
def test_outputs_of_every_form(outputs: Any) -> None:
    loss = pyrite.hf_loss("ce", shift=False)
    for items, divisor in ((None, 4), (7, 7), (torch.tensor(7), 7), (torch.tensor([[7], [7]]), 7)):
        torch.testing.assert_close(loss(outputs, LABELS, num_items_in_batch=items), OWN / divisor)
    torch.testing.assert_close(pyrite.hf_loss("ce", shift=True)(outputs, LABELS), NEXT / 3)


def test_what_is_not_said_is_not_guessed() -> None:
    loss = pyrite.hf_loss("ce")
    torch.testing.assert_close(loss(TokenClassifierOutput(logits=SCORES), LABELS), OWN / 4)
    for outputs in ((SCORES,), {"logits": SCORES}, CausalLMOutputWithCrossAttentions(logits=SCORES)):
        with pytest.raises(ValueError, match=r"pass shift=True .* \(causal language models\), or shift=False"):
            loss(outputs, LABELS)
    with pytest.raises(ValueError, match="shift is True, but logits"):
        pyrite.hf_loss("ce", shift=True)(SequenceClassifierOutput(logits=SCORES[0]), LABELS[0])


def test_half_precision_does_not_overflow() -> None:
    """The sum over 20,000 tokens is beyond float16; the mean is the number that torch has in float32."""
    scores = torch.zeros(20_000, 50, dtype=torch.float16, requires_grad=True)
    labels = torch.arange(20_000) % 50
    value = pyrite.hf_loss("ce")((scores,), labels, num_items_in_batch=20_000)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(math.log(50), rel=1e-5)
    value.backward()
    assert scores.grad is not None
    assert bool(torch.isfinite(scores.grad).all())


def test_a_step_without_labels_moves_nothing() -> None:
    scores = torch.randn(3, CLASSES, requires_grad=True)
    for items in (None, 0, torch.tensor(0)):
        value = pyrite.hf_loss("imae(T=8)")((scores,), torch.full((3,), -100), num_items_in_batch=items)
        (gradient,) = torch.autograd.grad(value, scores)
        assert value.item() == 0
        assert not gradient.any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pyrite.hf_loss("peer(ce)"), "couples the samples of a batch"),
        (lambda: pyrite.hf_loss("ce + 0.5*peer(ce)"), "couples the samples of a batch"),
        (lambda: pyrite.hf_loss("ce", reduction="sum"), "reduction is 'sum', but the Trainer needs a mean"),
        (
            lambda: pyrite.hf_loss(pyrite.CE(ignore_index=0)),
            "ignore_index is 0, but the Trainer counts all labels but -100",
        ),
        (lambda: pyrite.hf_loss(pyrite.CE(), weight=[1, 1]), "is already a loss"),
        (lambda: pyrite.hf_loss("ce", shift=1), "shift is 1"),
        (lambda: pyrite.hf_loss("nothing"), "nothing"),
    ],
)
def test_losses_that_do_not_fit_are_refused(make: Callable[[], HFLoss], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("outputs", "labels", "words"),
    [
        ((SCORES[0],), None, "the batch has no labels"),
        ({"loss": SCORES}, LABELS, "no logits, only loss"),
        ((torch.tensor(1.0),), LABELS, r"logits are of shape \(\)"),
        ((SCORES[0],), torch.zeros(3, CLASSES), "labels are torch.float32"),
        ((SCORES[0],), LABELS, r"labels have the shape \(2, 3\), but logits the shape \(3, 4\)"),
        ((SCORES[0],), torch.tensor([0, 1, 9]), "9"),
    ],
)
def test_batches_that_do_not_fit_are_refused(outputs: Any, labels: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pyrite.hf_loss("ce")(outputs, labels)
