"""Expectations against published numbers, and against the library's losses on samples."""

import math

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.theory.generalization import finite_class_complexity, linear_class_complexity
from debiased_contrastive.theory.losses import (
    biased_loss,
    class_means,
    debiased_limit,
    debiased_loss,
    inclusion_exclusion,
    supervised_losses,
    unbiased_loss,
)
from debiased_contrastive.theory.worlds import circle, collapsed_classes, constant_encoder


def test_losses_on_the_circle() -> None:
    world = circle()
    values = [unbiased_loss(world, n) for n in (1, 2, 3, 4)]
    assert values == pytest.approx([0.213304655750, 0.389218477875, 0.538871545282, 0.669075048890], abs=1e-12)
    assert [inclusion_exclusion(world, n) for n in (1, 2, 3, 4)] == pytest.approx(values, abs=1e-12)
    assert biased_loss(world, 1) == pytest.approx(0.373327922957, abs=1e-12)
    assert biased_loss(world, 4) == pytest.approx(1.058623410662, abs=1e-12)
    assert debiased_limit(world, 4) == pytest.approx(0.670436344463, abs=1e-12)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (6, 4, 3, 3, 2, 2)])
def test_the_debiased_loss_is_the_mean_of_the_librarys(sizes: tuple[int, ...]) -> None:
    probabilities = torch.tensor(sizes).double() / sum(sizes)
    world = circle(probabilities=probabilities, temperature=0.7)
    generator = torch.Generator().manual_seed(0)
    x = torch.multinomial(probabilities, 100_000, replacement=True, generator=generator)
    own = world.sample(world.p_plus, x, 3, generator)
    u = world.sample(world.p, x, 4, generator)
    s = world.scores[x]
    losses = dc.contrastive_loss(
        s.gather(1, own)[:, 0], s.gather(1, u), s.gather(1, own)[:, 1:],
        tau_plus=world.tau_plus[x], lower=-1 / 0.7, reduction="none",
    )  # fmt: skip
    error = 4 * float(losses.std()) / math.sqrt(len(losses))
    assert debiased_loss(world, 4, 2) == pytest.approx(float(losses.mean()), abs=error)


def test_classifiers_in_worlds_where_they_are_known() -> None:
    assert supervised_losses(constant_encoder(10)) == pytest.approx((math.log(10), math.log(10)))
    best, mean = supervised_losses(collapsed_classes(10))
    assert best < 1e-5
    assert mean == pytest.approx(math.log(1 + 9 / math.e))
    best, mean = supervised_losses(circle())
    assert best < mean < math.log(3)
    pairs = supervised_losses(collapsed_classes(6), 2)[1]
    assert pairs == pytest.approx(math.log(1 + 1 / math.e))
    torch.testing.assert_close(class_means(circle())[0], circle().points[:2].mean(0))


def test_rademacher_complexities_by_every_sign() -> None:
    """Three samples in the plane: 64 patterns of signs."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(5, 3, 2, dtype=torch.float64, generator=generator)
    inputs = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    patterns = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 6)
    finite = (patterns @ features.flatten(1).T).max(1).values.mean()
    linear = 1.5 * (patterns.view(-1, 2, 3) @ inputs).flatten(1).norm(dim=1).mean()
    for want, got in (
        (finite, finite_class_complexity(features, 4000, generator)),
        (linear, linear_class_complexity(inputs, 2, 1.5, 4000, generator)),
    ):
        assert abs(got.value - float(want)) < 4 * got.error < 0.1 * float(want)
    with pytest.raises(ValueError, match="draws must be at least 2"):
        finite_class_complexity(features, 1, generator)
