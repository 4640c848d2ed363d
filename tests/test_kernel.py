"""The compiled kernel: on every set of instructions, in any layout, from threads and after a fork; and its build."""

import copy
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F

import pyrite
from benchmarks.losses import extra_memory
from pyrite import kernel
from tests.contracts.test_losses import gradient
from tests.examples import CLASSES, losses

ROOT = Path(__file__).parents[1]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def compiled(library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernel, "library", lambda: library)
    yield library
    library.pyrite_limit(2)


def batch(rows: int, classes: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + classes)
    scores = 3 * torch.randn(rows, classes, generator=generator)
    return scores.to(dtype), torch.randint(classes, (rows,), generator=generator)


def in_torch(loss: pyrite.Loss, scores: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient in torch's operations, in float64."""
    x = scores.detach().double().clone().requires_grad_()
    value = loss.plain(x, labels)
    return value.detach(), torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_loss_on_every_set_of_instructions(level: int, compiled: Any) -> None:
    """Against torch's operations, where the kernel has the loss: all of the library but those that see every label."""
    if compiled.pyrite_limit(level) < level:
        pytest.skip("the processor does not have these instructions")
    scores, labels = batch(70, CLASSES)
    scores[torch.arange(70), labels] += torch.linspace(-20, 20, 70)
    has = 0
    for spec, loss in losses().items():
        if loss.compiled_terms(CLASSES) is None:
            continue
        has += 1
        value, exact = in_torch(loss, scores, labels)
        for dtype, close in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            found = gradient(loss, scores.to(dtype), labels).double()
            assert torch.allclose(loss(scores.to(dtype), labels).double(), value, rtol=close), (spec, dtype)
            assert ((found - exact).abs().amax(1) <= close * exact.abs().amax(1).clamp(min=1e-37)).all(), (spec, dtype)
    assert has >= 35


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("classes", [2, 3, 7, 8, 15, 16, 17, 33, 64, 100, 1023, 1024, 1025, 5000])
def test_every_width_and_dtype(classes: int, level: int, compiled: Any) -> None:
    compiled.pyrite_limit(level)
    loss = pyrite.loss("0.5*nce + gce", reduction="sum")
    for dtype in DTYPES:
        scores, labels = batch(5, classes, dtype)
        labels[0], labels[1] = 0, classes - 1
        value, exact = in_torch(loss, scores, labels)
        found = gradient(loss, scores, labels)
        assert torch.allclose(loss(scores, labels), value.to(dtype), rtol=1e-6, atol=0)
        # Rounded once: the nearest number of the dtype to one that is exact to 1e-6.
        step = torch.finfo(dtype).eps / 2 + 1e-6
        smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        allowed = step * exact.abs() + 1e-6 * exact.abs().amax(1, keepdim=True) + smallest
        assert ((found.double() - exact).abs() <= allowed).all(), dtype


def test_the_largest_score_in_a_later_block() -> None:
    """What was summed up before is rescaled; here by more than a float holds."""
    scores = torch.linspace(-300, 300, 4000).repeat(3, 1)
    labels = torch.tensor([0, 2000, 3999])
    for spec in ("ce", "nce"):
        loss = pyrite.loss(spec)
        value, exact = in_torch(loss, scores, labels)
        assert torch.allclose(loss(scores, labels).double(), value, rtol=1e-6)
        assert torch.allclose(gradient(loss, scores, labels).double(), exact, rtol=1e-5, atol=1e-12)


def test_nan_and_infinite_scores_show() -> None:
    for bad in (torch.nan, torch.inf):
        for place in (0, 3, 50, 99):
            scores, labels = batch(3, 100)
            scores[1, place], labels[1] = bad, 7
            values = pyrite.loss("ce", reduction="none")(scores, labels)
            assert values.isnan().tolist() == [False, True, False]
            assert gradient(pyrite.CE(), scores, labels)[1].isnan().any()


def test_layouts_are_read_where_they_are() -> None:
    scores, labels = batch(12, 40)
    loss = pyrite.loss("gce", reduction="sum")
    expected, grad = loss(scores, labels), gradient(loss, scores, labels)
    wide = torch.randn(12, 100)
    wide[:, 30:70] = scores
    for other in (wide[:, 30:70], scores.T.contiguous().T, scores.repeat_interleave(2, 0)[::2], scores.flip(0).flip(0)):
        assert torch.equal(loss(other, labels), expected)
        assert torch.equal(gradient(loss, other, labels), grad)
    assert torch.equal(loss(scores, labels.repeat_interleave(3)[::3]), expected)
    assert torch.equal(loss(scores, labels.int()), expected)
    row = scores[:1].expand(12, 40)
    assert torch.equal(loss(row, labels), loss(row.contiguous(), labels))
    assert torch.equal(loss(torch.nn.Parameter(scores), labels), expected)


def test_threads_do_not_change_a_bit_and_may_call_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = batch(1200, 1000)
    loss = pyrite.loss("nce + mae")
    alone = (loss(scores, labels), gradient(loss, scores, labels))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    results: list[tuple[torch.Tensor, torch.Tensor]] = []

    def call() -> None:
        results.append((loss(scores, labels), gradient(loss, scores, labels)))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 3
    for value, grad in results:
        assert torch.equal(value, alone[0])
        assert torch.equal(grad, alone[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.skipif(kernel.library() is None, reason="torch's own threads do not survive a fork")
def test_a_forked_process_computes_the_same() -> None:
    code = """
import os, torch, pyrite
torch.set_num_threads(2)
scores, labels = torch.randn(1200, 1000), torch.randint(1000, (1200,))
expected = pyrite.GCE()(scores, labels)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(pyrite.GCE()(scores, labels), expected) else 3)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_label_is_read_once_and_never_out_of_bounds() -> None:
    """The kernel refuses a label itself; one that changes behind its back, it takes for one to ignore."""
    scores, labels = batch(4, 6)
    scores.requires_grad_()
    with pytest.raises(ValueError, match="labels hold 6 at index 2"):
        pyrite.CE()(scores, torch.tensor([0, 1, 6, 2]))
    with pytest.raises(IndexError):
        kernel.forward(scores.detach(), torch.tensor([0, -(1 << 62), 0, 0]))
    value = 2 * pyrite.CE()(scores, labels)  # whose gradient is not that made together with the value
    labels.numpy()[1] = 1 << 40
    value.backward()
    assert scores.grad[1].eq(0).all()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_made_with_the_value_is_that_of_a_second_pass(reduction: Literal["mean", "sum"]) -> None:
    scores, labels = batch(64, 6)
    labels[3] = -100
    scores.requires_grad_()
    value = pyrite.GCE(reduction=reduction, weight=[1, 2, 3, 4, 5, 6])(scores, labels)
    value.backward(retain_graph=True)
    first, scores.grad = scores.grad, None
    first_kept = first.clone()
    value.backward(retain_graph=True)  # made anew: the first tensor now belongs to the caller
    assert torch.equal(scores.grad, first)
    scores.grad.zero_()
    (4 * value).backward()
    assert torch.equal(scores.grad, 4 * first_kept)
    assert torch.equal(first, first_kept)


def test_sums_take_one_pass_and_half_precision_no_copy() -> None:
    scores, labels = batch(256, 1000)
    for dtype, most in ((torch.float32, 1.05), (torch.bfloat16, 1.1)):
        x = scores.to(dtype, copy=True).requires_grad_()
        assert extra_memory(pyrite.loss("nce + mae"), x, labels) < most


def test_only_plain_tensors_go_to_the_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    scores, labels = batch(4, 6)
    assert kernel.takes(scores, labels)
    assert not kernel.takes(scores.to("meta"), labels.to("meta"))
    with FakeTensorMode() as mode:
        value = pyrite.GCE()(mode.from_tensor(scores), mode.from_tensor(labels))
        assert value.shape == ()

    class Own(torch.Tensor):
        pass

    assert torch.allclose(torch.Tensor(pyrite.GCE()(scores.as_subclass(Own), labels)), pyrite.GCE()(scores, labels))


def test_many_gradients_at_once() -> None:
    """``is_grads_batched`` calls the backward pass under vmap."""
    scores, labels = batch(4, 6, torch.float64)
    loss = pyrite.loss("0.7*nce + gce", reduction="none")
    fast = torch.autograd.functional.jacobian(lambda x: loss(x, labels), scores, vectorize=True)
    assert torch.allclose(fast, torch.autograd.functional.jacobian(lambda x: loss(x, labels), scores), rtol=1e-10)


def test_a_changed_parameter_is_read_again() -> None:
    scores, labels = batch(8, 6)
    loss = copy.deepcopy(pyrite.loss("gce(q=0.7) + 0.5*ce"))
    loss(scores, labels)
    loss.losses[0].q, loss.factors[1] = 0.3, 2.0
    assert torch.equal(loss(scores, labels), pyrite.loss("gce(q=0.3) + 2.0*ce")(scores, labels))


def test_users_curve_is_weighted_by_its_own_w() -> None:
    class Own(pyrite.GCE):  # type: ignore[misc]
        def phi(self, margin: torch.Tensor) -> torch.Tensor:
            return -2 * F.logsigmoid(margin)

        def w(self, margin: torch.Tensor) -> torch.Tensor:
            return 2 * F.logsigmoid(-margin).exp()

    scores, labels = batch(8, 6)
    assert torch.allclose(Own()(scores, labels), 2 * pyrite.CE()(scores, labels))
    assert torch.allclose(gradient(Own(), scores, labels), 2 * gradient(pyrite.CE(), scores, labels), rtol=1e-5)


def test_the_build_goes_on_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = runpy.run_path(str(ROOT / "pyrite" / "kernel" / "build.py"))  # as the build of the package runs it
    for compiler in ("no-such-compiler", f"{sys.executable} -c raise(SystemExit(1))"):
        monkeypatch.setenv("CC", compiler)
        with pytest.raises((OSError, subprocess.CalledProcessError)):
            build["compile_kernel"](tmp_path)
        assert not list(tmp_path.iterdir())


def test_bfloat16_products_work_where_amx_is_announced_without_tiles() -> None:
    """torch's product in a process of its own: an illegal instruction would end this one."""
    program = (
        "import torch, pyrite.kernel; a = torch.arange(128.0).view(128, 1).expand(128, 64).bfloat16();"
        "print(torch.nn.functional.linear(a, torch.ones(10, 64).bfloat16())[:3, 0].tolist())"
    )
    plain = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=plain)
    assert (done.returncode, done.stdout) == (0, "[0.0, 64.0, 128.0]\n"), done.stderr
