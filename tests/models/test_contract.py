"""What every registered net must do; a new one is found by itself."""

import copy
import random
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pyrite.models import MLP, MODELS, Architecture, Network, architecture, embed

# Built with their defaults, but for those that would take long; images as small as they may be.
SMALLER = {"wrn": "wrn(depth=10, width=2)"}
SPECS = [SMALLER.get(name, name) for name in MODELS]
CLASSES = 3


def shape_of(spec: str) -> tuple[int, ...]:
    smallest = architecture(spec).smallest
    return (6,) if smallest is None else (3, max(8, smallest), max(8, smallest))


@cache
def built(spec: str, seed: int) -> Network:
    return architecture(spec).build(shape_of(spec), CLASSES, seed)


def build(spec: str, seed: int = 0) -> Network:
    """A net of its own for each test; drawing the weights of the large ones takes longer than a copy."""
    return copy.deepcopy(built(spec, seed))


def batch(spec: str, count: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, *shape_of(spec), generator=generator), torch.arange(count) % CLASSES


@pytest.mark.parametrize("name", MODELS)
def test_the_default_spec_string_makes_the_same_again(name: str) -> None:
    made = architecture(name)
    assert architecture(str(made)) == made
    assert hash(made) == hash(architecture(name))


@pytest.mark.parametrize("spec", SPECS)
def test_scores_embeddings_and_gradients(spec: str) -> None:
    net, (inputs, labels) = build(spec), batch(spec)
    scores = net(inputs)
    assert scores.shape == (4, CLASSES)
    cross_entropy(scores, labels).backward()
    for name, weight in net.named_parameters():
        assert weight.requires_grad
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 1e-9, name
    net.eval()
    features = net.embed(inputs)
    assert features.ndim == 2
    assert torch.equal(features, embed(net, inputs))
    assert torch.equal(net.head(features), net(inputs))


@pytest.mark.parametrize("spec", SPECS)
def test_weights_depend_on_the_seed_alone_and_global_randomness_is_left_alone(spec: str) -> None:
    def state(seed: int) -> dict[str, Tensor]:
        return architecture(spec).build(shape_of(spec), CLASSES, seed).state_dict()

    before = torch.get_rng_state(), random.getstate()
    first = state(1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    torch.rand(3)  # the global state moves; the weights do not
    again, other = state(1), built(spec, 0).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("spec", SPECS)
def test_channels_last_and_double(spec: str) -> None:
    net, inputs = build(spec).double(), batch(spec)[0].double()
    plain = net(inputs)
    assert plain.dtype == torch.float64
    if inputs.ndim == 2:
        return
    last = build(spec).double().to(memory_format=torch.channels_last)
    scores = last(inputs.contiguous(memory_format=torch.channels_last))
    assert torch.allclose(plain, scores, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("spec", SPECS)
def test_training_moves_running_statistics_and_evaluation_does_not(spec: str) -> None:
    net, inputs = build(spec).double(), batch(spec)[0].double()
    state = {key: value.clone() for key, value in net.state_dict().items()}
    net.eval()
    scores = net(inputs)
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert torch.allclose(scores[:1], net(inputs[:1]), rtol=1e-8, atol=1e-10)  # samples do not see each other
    net.train()
    net(inputs)
    moved = {key for key, value in net.state_dict().items() if not torch.equal(value, state[key])}
    assert moved == {key for key in state if key.endswith(("running_mean", "running_var", "num_batches_tracked"))}


@pytest.mark.parametrize("spec", SPECS)
def test_copies_and_files(spec: str, tmp_path: Path) -> None:
    net, (inputs, _) = build(spec).eval(), batch(spec)
    expected = net(inputs)
    assert torch.equal(copy.deepcopy(net)(inputs), expected)
    # This refuses tensors that share memory or are not contiguous.
    safetensors.torch.save_file(net.state_dict(), tmp_path / "net.safetensors")
    other = build(spec).eval()
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.1)
    assert not torch.equal(other(inputs), expected)
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "net.safetensors"))
    assert torch.equal(other(inputs), expected)


@pytest.mark.parametrize("spec", SPECS)
def test_wrong_inputs_are_refused(spec: str) -> None:
    net, (inputs, _) = build(spec), batch(spec)
    with pytest.raises(ValueError, match="the net was built for"):
        net(inputs[:, :2])
    with pytest.raises(ValueError, match="the net was built for"):
        net(inputs[0])
    if inputs.ndim == 4 and not architecture(spec).any_size:
        with pytest.raises(ValueError, match="of that size"):
            net(inputs[:, :, :-1])
    elif inputs.ndim == 4:
        assert net(torch.cat([inputs, inputs], 2)).shape == (4, CLASSES)


@pytest.mark.parametrize("spec", SPECS)
def test_wrong_descriptions_of_the_data_are_refused(spec: str) -> None:
    described, shape = architecture(spec), shape_of(spec)
    for classes in (1, 0, 2.0, True, "ten"):
        with pytest.raises(ValueError, match="classes is"):
            described.build(shape, classes, seed=0)  # type: ignore[arg-type]
    for seed in (-1, 0.5, None, 2**64):
        with pytest.raises(ValueError, match="seed is"):
            described.build(shape, CLASSES, seed)  # type: ignore[arg-type]
    for wrong in ((3, 32), (0, 32, 32), (3, 32.0, 32), 7, ()):
        with pytest.raises(ValueError, match="shape is"):
            described.build(wrong, CLASSES, seed=0)  # type: ignore[arg-type]
    if described.smallest is not None:
        with pytest.raises(ValueError, match="takes images"):
            described.build((20,), CLASSES, seed=0)
        with pytest.raises(ValueError, match=f"images of {described.smallest} x"):
            described.build((3, described.smallest - 1, 64), CLASSES, seed=0)


@pytest.mark.parametrize("spec", ["fast_cnn", "mlp", "cnn4", "cnn8", "resnet20", "wrn(depth=10, width=1)"])
def test_a_few_samples_are_learnt_by_heart(spec: str) -> None:
    net, (inputs, labels) = build(spec), batch(spec, 12)
    rate = 0.3 if spec == "fast_cnn" else 0.05
    optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, nesterov=True)
    for _ in range(40):
        optimiser.zero_grad()
        loss = cross_entropy(net(inputs), labels)
        loss.backward()
        optimiser.step()
    assert loss < 0.1
    assert (net(inputs).argmax(1) == labels).all()


@pytest.mark.parametrize("spec", ["fast_cnn", "resnet20", "mlp"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's forward mode imports what warns
def test_forward_mode_agrees_with_reverse_mode_in_training(spec: str) -> None:
    import torch.autograd.forward_ad as forward

    net, (inputs, labels) = build(spec).double(), batch(spec)
    inputs = inputs.double()
    weights = dict(net.named_parameters())
    generator = torch.Generator().manual_seed(2)
    tangents = {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64) for name, value in weights.items()
    }
    gradients = torch.autograd.grad(cross_entropy(net(inputs), labels), list(weights.values()))
    expected = sum((gradient * tangents[name]).sum() for name, gradient in zip(weights, gradients, strict=True))
    with forward.dual_level():
        duals = {name: forward.make_dual(value.detach(), tangents[name]) for name, value in weights.items()}
        loss = cross_entropy(torch.func.functional_call(net, duals, (inputs,)), labels)
        found = forward.unpack_dual(loss).tangent
    assert found is not None
    assert torch.allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("spec", ["fast_cnn", "wrn(depth=10, width=1)"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler imports what warns
def test_compiled_nets_give_the_same(spec: str) -> None:
    net, (inputs, labels) = build(spec), batch(spec)
    compiled = torch.compile(copy.deepcopy(net), backend="aot_eager")
    plain, fused = net(inputs), compiled(inputs)
    assert torch.allclose(plain, fused, atol=1e-5)
    assert embed(compiled, inputs).shape == embed(net, inputs).shape
    cross_entropy(plain, labels).backward()
    cross_entropy(fused, labels).backward()
    for (name, weight), other in zip(net.named_parameters(), compiled.parameters(), strict=True):
        assert torch.allclose(weight.grad, other.grad, atol=1e-5), name


def test_the_default_device_does_not_matter() -> None:
    expected = MLP().build((4,), 2, seed=3).state_dict()
    with torch.device("meta"):
        found = MLP().build((4,), 2, seed=3).state_dict()
    assert all(torch.equal(expected[key], found[key]) for key in expected)


def test_registered_things_are_architectures() -> None:
    assert all(isinstance(cls(), Architecture) for cls in MODELS.values())
