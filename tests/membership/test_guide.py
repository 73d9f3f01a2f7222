import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from debiased_contrastive.membership.guide import from_guide
from debiased_contrastive.membership.knowledge import Knowledge

FORMS = ("consensus", "walk")


def world(n: int, k: int = 4, d: int = 16, noise: float = 0.2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % k
    return torch.eye(d)[labels] + noise * torch.randn(n, d, generator=generator), labels


def all_q(known: Knowledge) -> Tensor:
    places = torch.arange(len(known))
    return known.same_class(places, places).fill_diagonal_(0.0)


@pytest.mark.parametrize("form", FORMS)
def test_a_guide_that_knows_the_classes_finds_them(form: Any) -> None:
    features, labels = world(400)
    known = from_guide(features, form=form, num_classes=4, labels=labels)
    assert known.quality["precision"] > 0.95
    assert known.quality["vote_accuracy"] > 0.95
    assert known.quality["q_same"] > 10 * known.quality["q_other"]
    assert known.warnings == ()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_seed_gives_the_same_whatever_the_kind_and_scale(form: Any) -> None:
    features, _ = world(100)
    q = all_q(from_guide(features, form=form))
    assert torch.equal(all_q(from_guide(features, form=form)), q)
    for same in (features.numpy(), 4 * features, features.clone().requires_grad_()):
        assert torch.equal(all_q(from_guide(same, form=form)), q)
    assert float((all_q(from_guide(features.half(), form=form)) - q).abs().mean()) < 0.02


def test_clusterings_differ_and_become_finer() -> None:
    features = world(600, noise=1.0)[0]
    one, two = (from_guide(features, num_classes=5, clusterings=9, seed=seed).partitions for seed in (3, 4))
    assert one is not None
    assert two is not None
    sizes = [len(codes.unique()) for codes in one.T]
    assert one.shape == (600, 9)
    assert sizes[0] == 5
    assert sizes[-1] > 50
    assert sizes == sorted(sizes)
    assert not torch.equal(one, two)


@pytest.mark.parametrize("form", FORMS)
def test_zero_rows_are_unknown(form: Any) -> None:
    features, _ = world(60)
    features[[5, 7]] = 0.0
    known = from_guide(features, form=form, neighbours=5)
    assert float(all_q(known)[[5, 7]].sum()) == 0
    assert known.quality["known"] == pytest.approx(58 / 60)
    assert known.warnings == ("2 rows are zero: nothing is known of them",)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "features", [torch.ones(30, 4), torch.zeros(30, 4), torch.full((30, 4), 3.1) * torch.arange(1, 31).view(-1, 1)]
)
def test_collapsed_features_say_nothing(form: Any, features: Tensor) -> None:
    known = from_guide(features, form=form, labels=[0, 1] * 15)
    assert float(all_q(known).sum()) == 0
    assert "all rows point in one direction" in known.warnings[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [2, 3, 5, 21])
def test_fewer_samples_than_neighbours_or_clusters(form: Any, n: int) -> None:
    q = all_q(from_guide(torch.eye(n), form=form))
    assert q.shape == (n, n)
    assert bool(((q >= 0) & (q <= 1)).all())


def test_a_walk_in_small_data_is_certain_of_few_alone() -> None:
    features, labels = world(80, noise=0.5)
    known = from_guide(features, form="walk", num_classes=4, labels=labels)
    assert known.quality["mean_q"] < 0.3
    assert known.quality["q_same"] > 2 * known.quality["q_other"]
    sure = from_guide(features, form="walk", num_classes=4, certain=50)
    assert sure.quality["mean_q"] > known.quality["mean_q"]


def test_the_control_has_the_weights_of_the_walk_and_knows_nothing() -> None:
    features, labels = world(400, noise=0.5)
    walk, control = (
        from_guide(features, form=form, num_classes=4, labels=labels, seed=3) for form in ("walk", "random")
    )
    assert walk.graph is not None
    assert control.graph is not None
    assert abs(control.graph.nnz - walk.graph.nnz) < 0.05 * walk.graph.nnz
    assert control.quality["q_same"] == pytest.approx(control.quality["q_other"], rel=0.2)
    assert walk.quality["q_same"] > 2 * walk.quality["q_other"]


def test_few_directions_are_no_error() -> None:
    features = torch.eye(2).repeat(50, 1)
    q = all_q(from_guide(features))
    assert bool((q[0, 2::2] == 1).all())
    assert float(q[0, 1::2].sum()) <= 50 * 0.5
    assert all_q(from_guide(features, form="walk"))[0, 1::2].sum() == 0


@pytest.mark.parametrize(
    ("features", "settings", "message"),
    [
        (np.full((4, 2), np.nan), {}, "features must be finite"),
        (np.ones(4), {}, r"shape \(n, d\)"),
        (np.ones((4, 2), int), {}, "floating-point"),
        (np.ones((1, 2)), {}, "at least two rows"),
        (np.ones((4, 2)), {"form": "graph"}, 'form must be "consensus", "walk" or "random"'),
        (np.eye(4), {"form": "graph"}, 'form must be "consensus", "walk" or "random"'),
        (np.eye(4), {"neighbours": 0}, "neighbours must be at least 1"),
        (np.eye(4), {"labels": [0, 1]}, "one for each sample of 4"),
    ],
)
def test_bad_input_is_refused_in_one_line(features: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        from_guide(features, **settings)
    assert "\n" not in str(error.value)


def test_arrays_mapped_from_a_file_are_read(tmp_path: Any) -> None:
    np.save(tmp_path / "guide.npy", world(50)[0].numpy())
    assert len(from_guide(np.load(tmp_path / "guide.npy", mmap_mode="r"))) == 50


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_ten_thousand_rows_take_seconds(form: Any) -> None:
    features, _ = world(10_000, 10, 128, 0.3)
    start = time.perf_counter()
    from_guide(features, form=form)
    assert time.perf_counter() - start < 30
