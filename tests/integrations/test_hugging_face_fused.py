"""Causal language models whose projection and loss are one: the same steps as with all scores, in less memory."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

import pyrite
from benchmarks.memory import peak_bytes

WORDS, LENGTH, BATCH = 30, 6, 8
SMALL = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def gpt(words: int = WORDS) -> Any:
    """Its head is its embedding."""
    torch.manual_seed(0)
    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=words, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **sizes))


def llama(**options: Any) -> Any:
    """Its head has weights of its own."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SMALL, intermediate_size=16, tie_word_embeddings=False, **options))


MODELS = {"tied": gpt, "untied": llama}


def samples() -> list[dict[str, Tensor]]:
    """Unevenly many labels are ignored, so that the mean of means would be another."""
    words = torch.randint(WORDS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    labels = words.clone()
    for row, ignored in enumerate([0, 5, 4, 0, 1, 5, 2, 6]):
        labels[row, :ignored] = -100
    return [{"input_ids": ids, "labels": label} for ids, label in zip(words, labels, strict=True)]


def batch() -> dict[str, Tensor]:
    return {name: torch.stack([sample[name] for sample in samples()]) for name in ("input_ids", "labels")}


def gradients(model: Any, value: Tensor) -> dict[str, Tensor]:
    value.backward()  # type: ignore[no-untyped-call]
    return {name: part.grad for name, part in model.named_parameters()}


def trained(folder: Path, model: Any, size: int, loss: Any = None) -> dict[str, Tensor]:
    settings = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=size, gradient_accumulation_steps=BATCH // size,
        max_steps=2, learning_rate=0.5, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0, dataloader_pin_memory=False,
    )  # fmt: skip
    data: Any = samples()
    Trainer(model=model, args=settings, train_dataset=data, compute_loss_func=loss).train()
    return {name: part.detach().clone() for name, part in model.named_parameters()}


@pytest.mark.parametrize("spec", ["ce", "gce(q=0.7)", "nce + mae"])
@pytest.mark.parametrize("kind", list(MODELS))
def test_loss_and_gradients_are_those_of_all_scores(kind: str, spec: str) -> None:
    words, whole, fused = batch(), MODELS[kind](), pyrite.hf_fuse(MODELS[kind](), spec, chunk=5)
    for items in (None, 17, torch.tensor(40)):
        whole.zero_grad()
        fused.zero_grad()
        output = fused(**words, num_items_in_batch=items)
        assert output.keys() & {"loss", "logits"} == {"loss"}
        scores = whole(words["input_ids"]).logits
        expected = pyrite.hf_loss(spec, shift=True)((scores,), words["labels"], num_items_in_batch=items)
        torch.testing.assert_close(output.loss, expected)
        theirs = gradients(whole, expected)
        for name, mine in gradients(fused, output.loss).items():
            torch.testing.assert_close(mine, theirs[name], rtol=1e-4, atol=1e-6)
    assert fused.state_dict().keys() == whole.state_dict().keys()
    tied = fused.get_output_embeddings().weight is fused.get_input_embeddings().weight
    assert tied == (kind == "tied")


@pytest.mark.parametrize("kind", list(MODELS))
def test_the_trainer_takes_the_same_steps(kind: str, tmp_path: Path) -> None:
    """In one batch or in four pieces; and cross entropy is the model's own."""
    loss = pyrite.hf_loss("gce(q=0.7)", shift=True)
    expected = trained(tmp_path, MODELS[kind](), 8, loss)
    for size in (2, 8):
        mine = trained(tmp_path, pyrite.hf_fuse(MODELS[kind](), "gce(q=0.7)", chunk=7), size)
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-6)
    own = trained(tmp_path, MODELS[kind](), 2)
    torch.testing.assert_close(trained(tmp_path, pyrite.hf_fuse(MODELS[kind](), "ce"), 2), own, rtol=0, atol=1e-6)
    before = dict(MODELS[kind]().named_parameters())
    assert max(float((own[name] - part).abs().max().detach()) for name, part in before.items()) > 1e-3


def test_scores_are_there_when_they_are_asked_for(tmp_path: Path) -> None:
    words, plain, fused = batch(), gpt(), pyrite.hf_fuse(gpt(), "gce(q=0.7)")
    assert torch.equal(fused(words["input_ids"]).logits, plain(words["input_ids"]).logits)  # in training mode
    training = fused(**words, return_dict=False)[0]
    fused.eval()
    output = fused(**words)
    assert output.logits.shape == (BATCH, LENGTH, WORDS)
    torch.testing.assert_close(output.loss, training)
    fused.save_pretrained(tmp_path)
    again = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert torch.equal(again(words["input_ids"]).logits, output.logits)
    assert fused.generate(words["input_ids"][:1, :2], max_new_tokens=2, pad_token_id=0).shape == (1, 4)


def test_a_copy_projects_by_its_own_head() -> None:
    fused = pyrite.hf_fuse(llama(), "ce")
    twin = copy.deepcopy(fused)
    with torch.no_grad():
        twin.get_output_embeddings().weight.zero_()
    words = batch()
    assert twin(**words).loss.item() == pytest.approx(torch.tensor(float(WORDS)).log().item(), rel=1e-5)
    assert fused(**words).loss.item() != pytest.approx(twin(**words).loss.item(), rel=1e-5)


def test_shifted_labels_and_half_precision() -> None:
    words, fused = batch(), pyrite.hf_fuse(llama(), "ce", chunk=5)
    value = fused(**words).loss
    shifted = torch.cat([words["labels"][:, 1:], torch.full((BATCH, 1), -100)], 1)
    torch.testing.assert_close(fused(**words, shift_labels=shifted).loss, value)
    half = fused.to(torch.bfloat16)(**words).loss
    assert half.dtype == torch.float32  # as the loss of transformers
    torch.testing.assert_close(half, value, rtol=0.02, atol=0)
    half.backward()
    assert fused.get_output_embeddings().weight.grad.dtype == torch.bfloat16


def test_memory_is_not_that_of_all_scores() -> None:
    words = 20_000
    ids = torch.randint(words, (4, 64), generator=torch.Generator().manual_seed(0))
    scores = 4 * 64 * words * 4
    whole, fused = gpt(words), pyrite.hf_fuse(gpt(words), "ce", chunk=16)
    assert peak_bytes(lambda: whole(ids, labels=ids).loss.backward()) > 2 * scores
    assert peak_bytes(lambda: fused(ids, labels=ids).loss.backward()) < 0.6 * scores


def test_an_error_leaves_the_head_as_it_was() -> None:
    fused, words = pyrite.hf_fuse(gpt(), "ce"), batch()
    with pytest.raises(ValueError, match="labels hold 99"):
        fused(words["input_ids"], labels=torch.full((BATCH, LENGTH), 99))
    assert fused.get_output_embeddings()(torch.zeros(1, 16)).shape == (1, WORDS)


def test_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="Linear is not a causal language model of transformers"):
        pyrite.hf_fuse(nn.Linear(2, 2), "ce")
    masked = BertForMaskedLM(BertConfig(**SMALL, intermediate_size=16))
    with pytest.raises(ValueError, match="BertForMaskedLM is not a causal language model"):
        pyrite.hf_fuse(masked, "ce")
    with pytest.raises(ValueError, match="is fused already"):
        pyrite.hf_fuse(pyrite.hf_fuse(gpt(), "ce"), "mae")
    with pytest.raises(ValueError, match="couples the samples of a batch"):
        pyrite.hf_fuse(gpt(), "peer(ce)")
    capped = Gemma2ForCausalLM(Gemma2Config(**SMALL, intermediate_size=16, num_key_value_heads=1, head_dim=8))
    with pytest.raises(ValueError, match="changes its scores after the head"):
        pyrite.hf_fuse(capped, "ce")(**batch())
