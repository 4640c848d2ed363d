import json

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from pyrite.data import Batches, CropFlip, LazyImages, Statistics, load
from pyrite.data.augment import Draws, crop_and_flip

IMAGES = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 6)).astype(np.uint8)
LABELS = np.arange(50) % 7
ROWS_OF_FEATURES = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)


def same(first, second):
    first, second = list(first), list(second)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)


def test_a_batch_is_inputs_labels_and_index_and_nothing_else():
    batches = Batches(IMAGES, LABELS, batch_size=16, seed=0)
    seen = []
    for batch in batches:
        inputs, labels, index = batch
        assert len(batch) == 3
        assert (inputs.dtype, labels.dtype, index.dtype) == (torch.float32, torch.int64, torch.int64)
        assert torch.equal(labels, torch.from_numpy(LABELS)[index])
        torch.testing.assert_close(inputs, torch.from_numpy(IMAGES)[index] / 255, rtol=1e-6, atol=0)
        seen += index.tolist()
    assert sorted(seen) == list(range(50))
    assert len(batches) == 4
    assert [len(labels) for _, labels, _ in batches] == [16, 16, 16, 2]


@pytest.mark.parametrize("name", ["cifar10n", "blobs"])
def test_truth_never_appears(name, home, write):
    """A set that knows the truth gives out the given labels only."""
    if name == "cifar10n":
        _, labels = write.cifar10(home / "cifar10" / "cifar-10-batches-py")
        columns = {"clean_label": labels, "worse_label": (labels + 1) % 10}
        torch.save(columns, home / "cifar10" / "CIFAR-10_human.pt")
    data = load(name)
    for batch in Batches(data.inputs, data.labels, seed=0):
        assert batch._fields == ("inputs", "labels", "index")
        if data.true is not None:
            assert (batch.labels != torch.from_numpy(data.true)[batch.index]).all()


def test_epochs_differ_and_repeat():
    batches = Batches(IMAGES, LABELS, batch_size=50, seed=3)
    orders = [index.tolist() for _ in range(3) for _, _, index in batches]
    assert batches.epoch == 3
    assert len({tuple(order) for order in orders}) == 3
    again = Batches(IMAGES, LABELS, batch_size=50, seed=3)
    again.seek(1)
    assert next(iter(again))[2].tolist() == orders[1]
    other = Batches(IMAGES, LABELS, batch_size=50, seed=4)
    assert next(iter(other))[2].tolist() != orders[0]


def test_the_order_does_not_depend_on_the_batch_size():
    one = torch.cat([index for _, _, index in Batches(IMAGES, LABELS, batch_size=7, seed=3)])
    other = torch.cat([index for _, _, index in Batches(IMAGES, LABELS, batch_size=13, seed=3)])
    assert torch.equal(one, other)


def test_an_iteration_that_was_overtaken_says_so():
    batches = Batches(IMAGES, LABELS, batch_size=16, seed=0)
    old = iter(batches)
    next(old)
    next(iter(batches))  # goes on where the other stopped
    with pytest.raises(RuntimeError, match="position of these batches was changed"):
        next(old)
    batches.seek(0)
    old = iter(batches)
    last = [next(old) for _ in range(4)][-1]
    batches.seek(0)
    with pytest.raises(RuntimeError, match="position of these batches was changed"):
        next(old)
    assert len(last.labels) == 2


def test_golden_order():
    index = next(iter(Batches(IMAGES, LABELS, batch_size=10, seed=2026)))[2]
    assert index.tolist() == [12, 39, 18, 19, 28, 0, 14, 49, 23, 8]


def test_without_shuffling():
    batches = Batches(IMAGES, LABELS, batch_size=20, seed=0, shuffle=False)
    assert torch.cat([index for _, _, index in batches]).tolist() == list(range(50))


def test_some_of_the_samples():
    index = np.array([4, 8, 15, 16, 23, 42])
    batches = Batches(IMAGES, LABELS, batch_size=4, seed=0, index=index)
    seen = torch.cat([rows for _, _, rows in batches])
    assert sorted(seen.tolist()) == index.tolist()


def test_drop_last():
    batches = Batches(IMAGES, LABELS, batch_size=16, seed=0, drop_last=True)
    assert [len(labels) for _, labels, _ in batches] == [16, 16, 16]
    assert len(batches) == 3


@given(
    samples=st.integers(1, 40),
    batch_size=st.integers(1, 12),
    epoch=st.integers(0, 3),
    stop=st.integers(0, 40),
    flip=st.sampled_from(["alternate", "random", "none"]),
    drop_last=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_resuming_gives_the_very_same_batches(samples, batch_size, epoch, stop, flip, drop_last):
    assume(samples >= batch_size or not drop_last)

    def made():
        augment = CropFlip(pad=2, flip=flip)
        return Batches(
            IMAGES[:samples], LABELS[:samples], batch_size=batch_size, seed=9, augment=augment, drop_last=drop_last
        )

    whole = made()
    whole.seek(epoch)
    expected = list(whole) + list(whole)
    stopped = made()
    stopped.seek(epoch)
    stop = min(stop, len(stopped))
    head = []
    if stop:
        for batch in stopped:
            head.append(batch)
            if len(head) == stop:
                break
    state = json.loads(json.dumps(stopped.state_dict()))
    assert (state["epoch"], state["position"]) == (epoch, stop)
    resumed = made()
    resumed.load_state_dict(state)
    same(expected, head + list(resumed) + list(resumed))
    assert resumed.state_dict() == whole.state_dict()
    # What was broken off goes on in the same object too.
    same(expected[stop:], list(stopped) + list(stopped))


def test_a_state_of_other_batches_is_refused(refused):
    batches = Batches(IMAGES, LABELS, batch_size=16, seed=0)
    state = batches.state_dict()
    for change, said in (
        ({"seed": 1}, "seed 1"),
        ({"samples": 49}, "samples 49"),
        ({"batch_size": 8}, "batch_size 8"),
        ({"position": 5}, "position is 5"),
        ({"position": -1}, "position is -1"),
        ({"epoch": "0"}, "epoch is '0'"),
    ):
        assert said in refused(batches.load_state_dict, state | change)
    assert "epoch is -1" in refused(batches.load_state_dict, {k: v for k, v in state.items() if k != "epoch"})


@given(st.integers(1, 50), st.integers(1, 20), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_shares_of_all_ranks_are_the_batches_of_one(samples, batch_size, world_size):
    def made(**share):
        inputs, labels = IMAGES[:samples], LABELS[:samples]
        return Batches(inputs, labels, batch_size=batch_size, seed=1, augment=CropFlip(pad=1), **share)

    ranks = [list(made(rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert len({len(batches) for batches in ranks}) == 1
    joined = [tuple(torch.cat(parts) for parts in zip(*shares, strict=True)) for shares in zip(*ranks, strict=True)]
    same(made(), joined)
    for shares in zip(*ranks, strict=True):
        sizes = [len(labels) for _, labels, _ in shares]
        assert max(sizes) - min(sizes) <= 1


def by_hand(image, top, left, mirrored, pad, size, edge="constant"):
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), mode=edge)
    cut = padded[:, top : top + size[0], left : left + size[1]]
    return cut[:, :, ::-1] if mirrored else cut


@pytest.mark.parametrize(("edge", "mode"), [("zeros", "constant"), ("reflect", "reflect")])
@pytest.mark.parametrize(("pad", "crop"), [(3, None), (0, 5), (2, 7), (0, None)])
def test_crop_and_flip_against_one_image_at_a_time(edge, mode, pad, crop):
    augment = CropFlip(pad=pad, crop=crop, edge=edge)
    size = augment.size(8, 6)
    draws = augment.draw(8, 6, np.arange(50), 50, 5, 0)
    got = crop_and_flip(augment.padded(torch.from_numpy(IMAGES)), torch.arange(50), draws, size)
    rows = zip(IMAGES, *(part.tolist() for part in draws[:3]), strict=True)
    expected = np.stack([by_hand(image, *row, pad, size, mode) for image, *row in rows])
    np.testing.assert_array_equal(got.numpy(), expected)


def test_the_given_draws_are_used():
    one = torch.arange(2 * 1 * 4 * 4).reshape(2, 1, 4, 4)
    draws = Draws(torch.tensor([0, 2]), torch.tensor([1, 0]), torch.tensor([False, True]))
    got = crop_and_flip(one, torch.tensor([1, 0]), draws, (2, 2))
    assert got.tolist() == [[[[17, 18], [21, 22]]], [[[9, 8], [13, 12]]]]


def test_places_are_uniform_and_all_are_reached():
    draws = CropFlip(pad=2).draw(8, 6, np.arange(25_000), 25_000, 0, 0)
    counts = np.bincount((draws.top * 5 + draws.left).numpy(), minlength=25)
    # 25 places, 1,000 each, with a deviation of 31.
    assert len(counts) == 25
    assert np.abs(counts - 1000).max() < 4.5 * 31


def test_alternating_flips_show_each_image_both_ways_in_two_epochs():
    index = np.random.default_rng(1).permutation(1000)
    augment = CropFlip()
    first, second, third = (augment.draw(8, 6, index, 1000, 4, epoch).mirrored.numpy() for epoch in range(3))
    assert (first != second).all()
    assert (first == third).all()
    assert first.sum() == 500
    other_order = augment.draw(8, 6, np.arange(1000), 1000, 4, 0).mirrored.numpy()
    np.testing.assert_array_equal(other_order[index], first)
    assert (augment.draw(8, 6, index, 1000, 5, 0).mirrored.numpy() != first).any()


def test_random_flips_are_drawn_anew():
    augment = CropFlip(flip="random")
    first, second = (augment.draw(8, 6, np.arange(4000), 4000, 4, epoch).mirrored.numpy() for epoch in range(2))
    # Halves of 4,000 have the deviation 32.
    assert abs(first.sum() - 2000) < 4.5 * 32
    assert abs((first == second).sum() - 2000) < 4.5 * 32


def test_cutting_the_middle():
    batches = Batches(
        IMAGES, LABELS, seed=0, shuffle=False, augment=CropFlip(pad=0, crop=4, flip="none", place="centre")
    )
    inputs = next(iter(batches)).inputs
    torch.testing.assert_close(inputs, torch.from_numpy(IMAGES[:, :, 2:6, 1:5]) / 255, rtol=1e-6, atol=0)


def test_statistics_of_images_are_exact():
    found = Statistics.of(IMAGES)
    np.testing.assert_allclose(found.mean, (IMAGES / 255).mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(found.std, (IMAGES / 255).std((0, 2, 3)), rtol=1e-12)
    some = Statistics.of(IMAGES, [3, 5])
    np.testing.assert_allclose(some.mean, (IMAGES[[3, 5]] / 255).mean((0, 2, 3)), rtol=1e-12)


@pytest.mark.parametrize("inputs", [IMAGES, np.random.default_rng(0).normal(3, 7, (50, 4)).astype(np.float32)])
def test_normalised_batches_have_mean_zero_and_deviation_one(inputs):
    batches = Batches(inputs, LABELS, seed=0, normalise=Statistics.of(inputs))
    whole = torch.cat([batch.inputs for batch in batches]).double()
    across = (0, 2, 3) if inputs.ndim == 4 else (0,)
    torch.testing.assert_close(whole.mean(across), torch.zeros(inputs.shape[1], dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(whole.std(across, correction=0), torch.ones(inputs.shape[1], dtype=torch.float64))


def test_a_constant_feature_or_channel_is_not_divided_by_zero():
    assert Statistics.of(np.full((5, 2), 3, np.float32)).std == (1.0, 1.0)
    assert Statistics.of(np.zeros((5, 1, 2, 2), np.uint8)).std == (1.0,)


def test_batches_leave_the_data_alone():
    images, labels = IMAGES.copy(), LABELS.copy()
    images.flags.writeable = False
    for batch in Batches(images, labels, seed=0, normalise=Statistics.of(images), augment=CropFlip()):
        batch.labels.zero_()
        batch.inputs.zero_()
    features = np.ones((50, 2), np.float32)
    for batch in Batches(features, labels, seed=0, normalise=Statistics((3.0, 3.0), (2.0, 2.0))):
        batch.inputs.zero_()
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)
    assert (features == 1).all()


def test_the_global_random_state_is_not_touched():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state().clone(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(Batches(IMAGES, LABELS, seed=0, augment=CropFlip(flip="random")))
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.fixture
def lazy(tmp_path, write):
    names = [f"{number}.png" for number in range(23)]
    for number, name in enumerate(names):
        write.image(tmp_path / name, seed=number, size=(10, 12))
    return LazyImages(tmp_path, names, (12, 10))


def test_lazy_batches_are_those_of_one_tensor_for_any_number_of_workers(lazy):
    def made(inputs, workers):
        augment = CropFlip(pad=2, jitter=[0.4, 0.4, 0.4, 0.2])
        return Batches(
            inputs, LABELS[:23], batch_size=5, seed=6, augment=augment, normalise=statistics, workers=workers
        )

    statistics = Statistics.of(lazy)
    assert statistics == Statistics.of(lazy[:])
    expected = made(lazy[:], 0)
    expected = list(expected) + list(expected)
    whole = made(lazy[:], 0)
    whole.seek(2)
    again = whole.again(torch.tensor([4, 0, 22]))
    for workers in (0, 1, 3):
        batches = made(lazy, workers)
        same(expected, list(batches) + list(batches))
        assert batches.unreadable == {}
        assert torch.equal(batches.again(torch.tensor([4, 0, 22])), again)


def test_lazy_batches_resume(lazy):
    batches = Batches(lazy, LABELS[:23], batch_size=5, seed=6, augment=CropFlip(pad=2), workers=2)
    expected = list(batches)
    batches.seek(0)
    for number, _ in enumerate(batches, start=1):
        if number == 2:
            break
    assert batches.state_dict()["position"] == 2  # threads are ahead, the position is not
    resumed = Batches(lazy, LABELS[:23], batch_size=5, seed=6, augment=CropFlip(pad=2), workers=1)
    resumed.load_state_dict(batches.state_dict())
    same(expected[2:], resumed)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_is_set_aside_and_the_run_goes_on(lazy, workers):
    whole = {
        int(i): image
        for image, _, index in Batches(lazy, LABELS[:23], seed=6)
        for i, image in zip(index, image, strict=True)
    }
    lazy.path(4).write_bytes(b"")
    lazy.path(11).unlink()
    for augment in (None, CropFlip(pad=0, flip="none")):
        batches = Batches(lazy, LABELS[:23], batch_size=5, seed=6, workers=workers, augment=augment)
        seen = []
        for inputs, labels, index in batches:
            assert len(inputs) == len(labels) == len(index)
            for i, image, label in zip(index.tolist(), inputs, labels.tolist(), strict=True):
                assert torch.equal(image, whole[i])
                assert label == LABELS[i]
                seen.append(i)
        assert sorted(seen) == sorted(set(range(23)) - {4, 11})
        assert set(batches.unreadable) == {str(lazy.path(4)), str(lazy.path(11))}


def test_statistics_need_an_image(lazy, refused):
    for number in range(23):
        lazy.path(number).write_bytes(b"")
    assert "none of 23 images" in refused(Statistics.of, lazy)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"rank": 2, "world_size": 2}, "rank is 2, but must be a whole number from 0 to 1"),
        ({"workers": -1}, "workers is -1"),
        ({"batch_size": 51, "drop_last": True}, "drop_last leaves nothing"),
        ({"labels": LABELS[:49]}, "labels has 49 labels, but there are 50 inputs"),
        ({"labels": LABELS / 2}, "labels has the dtype float64"),
        ({"index": [50]}, "index is 50, but there are 50 samples"),
        ({"index": []}, "index is empty"),
        ({"index": [[1]]}, "index has the shape (1, 1)"),
        ({"inputs": IMAGES / 255}, "float64"),
        ({"normalise": Statistics((0.5,), (1.0,))}, "1 means, the inputs have 3"),
        ({"augment": CropFlip(pad=0, crop=7)}, "crop is 7"),
        ({"augment": CropFlip(pad=6, edge="reflect")}, "pad is 6"),
        ({"inputs": np.zeros((50, 4), np.float32), "augment": CropFlip()}, "the samples are features: omit it"),
    ],
)
def test_what_is_refused(refused, options, said):
    assert said in refused(Batches, **({"inputs": IMAGES, "labels": LABELS, "seed": 0} | options))


@pytest.mark.parametrize(
    "options", [{"pad": -1}, {"crop": 0}, {"flip": "both"}, {"edge": "wrap"}, {"place": "left"}, {"jitter": [1, 2]}]
)
def test_wrong_augmentations(refused, options):
    assert next(iter(options)) + " is " in refused(CropFlip, **options)


def test_an_augmentation_is_spelled():
    assert repr(CropFlip(pad=2)) == "CropFlip(pad=2, flip='alternate', edge='zeros', place='random')"


def test_another_view_has_other_crops_and_the_other_flip():
    """Crops are of the padded image, a sample's view does not depend on its batch, and every epoch has others."""
    augment = CropFlip(pad=2)
    whole = Batches(IMAGES, LABELS, batch_size=50, seed=3, augment=augment)
    small = Batches(IMAGES, LABELS, batch_size=7, seed=3, augment=augment, rank=1, world_size=2)
    shown = next(iter(whole))
    views = whole.again(shown.index)
    for batch in small:
        again = small.again(batch.index)
        place = [shown.index.tolist().index(number) for number in batch.index.tolist()]
        assert torch.equal(batch.inputs, shown.inputs[place])
        assert torch.equal(again, views[place])
    draws, others = (augment.draw(8, 6, np.arange(50), 50, 3, 0, view=view) for view in (0, 1))
    assert (draws.mirrored != others.mirrored).all()
    assert (draws.top != others.top).any()
    padded = augment.padded(torch.from_numpy(IMAGES))
    for number, view in zip(shown.index.tolist(), views, strict=True):
        top, left = int(others.top[number]), int(others.left[number])
        crop = padded[number, :, top : top + 8, left : left + 6] / 255
        torch.testing.assert_close(view, crop.flip(-1) if others.mirrored[number] else crop, rtol=1e-6, atol=0)
    whole.seek(1)
    assert not torch.equal(whole.again(shown.index), views)


def test_another_view_without_augmentation_is_the_same():
    for inputs in (IMAGES, ROWS_OF_FEATURES):
        batches = Batches(inputs, LABELS, batch_size=16, seed=0)
        for batch in batches:
            assert torch.equal(batches.again(batch.index), batch.inputs)
