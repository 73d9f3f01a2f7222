"""How far to trust knowledge: the strength from labels on worlds with known truth, and the rule without labels."""

import pytest
import torch
from scipy import sparse
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.membership.force import ForceCurve, force_curve
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.strength import (
    FEW_LABELS,
    HARD_STRENGTH,
    best_strength,
    choose_strength,
    safe_strength,
)
from tests.membership.test_force import CLASSES, noisy, world


def first_order(curve: ForceCurve) -> float:
    """The closed form that ignores that weights are divided by their sum."""
    return min(max(0.0, float(curve.along.sum() / curve.size.sum())), curve.limit)


def torn_world(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Five classes, and seven other groups that have nothing to do with them but are as easy to see."""
    z, labels = world(n, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    means = F.normalize(torch.randn(7, z.shape[1], generator=generator, dtype=torch.float64), dim=1)
    return F.normalize(z + 0.5 * means[torch.randint(7, (n,), generator=generator)], dim=1), labels


def clusters(z: Tensor, number: int) -> Knowledge:
    """Errors that follow the features."""
    found = KMeans(number, n_init=1, random_state=0).fit_predict(z.numpy())
    return Knowledge(partitions=torch.from_numpy(found).unsqueeze(1))


@pytest.mark.parametrize("temperature", [0.5, 0.1])
def test_the_truth_gets_1_and_a_random_partition_nothing(temperature: float) -> None:
    z, labels = world(1500)
    truth = Knowledge(partitions=labels.unsqueeze(1))
    assert best_strength(z, labels, truth, temperature) == 1
    # Half as sure of the truth: twice the strength.
    half = Knowledge(membership=0.5**0.5 * F.one_hot(labels, CLASSES).float())
    assert best_strength(z, labels, half, temperature) == pytest.approx(2, rel=1e-5)
    chance = Knowledge(partitions=torch.randint(CLASSES, (1500, 1), generator=torch.Generator().manual_seed(0)))
    assert best_strength(z, labels, chance, temperature) < 0.1
    other = sparse.csr_array((labels.unsqueeze(1) != labels).float().numpy() / 2)
    assert best_strength(z, labels, Knowledge(graph=other), temperature) == 0


def test_the_search_is_better_on_held_out_labels_than_the_closed_form() -> None:
    gains = []
    for seed in range(6):
        z, labels = torn_world(900, seed)
        few, rest = (torch.where(part, labels, -1) for part in (torch.arange(900) < 300, torch.arange(900) >= 300))
        errors = Knowledge(partitions=noisy(labels, 0.6, seed).unsqueeze(1))
        for source, temperature in ((errors, 0.5), (clusters(z, CLASSES), 0.5), (clusters(z, CLASSES), 0.1)):
            seen, held_out = (force_curve(z, each, source, temperature=temperature) for each in (few, rest))
            searched = held_out.share(seen.best)
            assert searched > max(0.0, held_out.share(held_out.best) - 0.06)
            gains.append(searched - held_out.share(first_order(seen)))
        chance = Knowledge(
            partitions=torch.randint(CLASSES, (900, 1), generator=torch.Generator().manual_seed(seed))
        )
        assert force_curve(z, rest, chance).share(best_strength(z, few, chance)) > -0.02
    # The closed form trusts clusters too much; where all trust is right, both say 1.
    assert max(gains) > 0.04
    assert sum(gains) / len(gains) > 0.02
    assert min(gains) > -0.03


def test_the_rule_without_labels_is_said_in_words() -> None:
    codes = torch.randint(7, (200, 1), generator=torch.Generator().manual_seed(0))
    strength, words = safe_strength(Knowledge(partitions=codes))
    assert strength == HARD_STRENGTH
    assert words.startswith("Strength 0.2: the knowledge says 0 or 1")
    many = torch.randint(7, (200, 9), generator=torch.Generator().manual_seed(0))
    strength, words = safe_strength(Knowledge(partitions=many))
    assert strength == 1
    assert words.startswith("Strength 1: the knowledge is soft, it joins pairs with a probability of 0.")
    strength, words = safe_strength(Knowledge(membership=torch.zeros(200, 3)))
    assert strength == 1
    assert words.startswith("Nothing is known")


def test_few_labels_can_harm_and_a_hundred_do_not() -> None:
    shares: dict[int, list[float]] = {15: [], 100: []}
    for seed in range(4):
        z, labels = torn_world(600, seed)
        chance = torch.randint(CLASSES, (600, 1), generator=torch.Generator().manual_seed(seed))
        for source in (clusters(z, CLASSES), Knowledge(partitions=chance)):
            whole = force_curve(z, labels, source, temperature=0.1)
            for count, found in shares.items():
                for start in range(0, 500, 100):
                    given = torch.full_like(labels, -1)
                    given[start : start + count] = labels[start : start + count]
                    found.append(whole.share(min(whole.limit, best_strength(z, given, source, 0.1))))
    assert min(shares[15]) < -0.02 <= min(shares[100])
    assert FEW_LABELS == 100


def test_labels_choose_the_strength_that_the_loss_is_told() -> None:
    z, labels = torn_world(600, 0)
    few = torch.where(torch.arange(600) < 200, labels, -1)
    source = clusters(z, CLASSES)
    known = choose_strength(source, z, few, temperature=0.1)
    assert known.strength is not None
    assert 0 < known.strength == best_strength(z, few, source, 0.1) < 1
    assert known.strength != best_strength(z, few, source)
    assert known.reason == f"Strength {known.strength:.2f}: it has the largest force share on 200 labels."
    handful = choose_strength(source, z, torch.where(torch.arange(600) < 99, labels, -1))
    assert handful.reason.endswith(
        "on 99 labels. So few can be wrong, even to harm: give at least 100, or the strength itself."
    )
    assert known.partitions is source.partitions
    # The labelled samples alone say the same, wherever they stand.
    order = torch.randperm(600, generator=torch.Generator().manual_seed(1))[:200]
    shuffled = torch.full((600,), -1).index_put((order,), labels[order])
    alone = choose_strength(source, z[order], labels[order], rows=order)
    assert alone.strength == pytest.approx(best_strength(z, shuffled, source), rel=1e-6)
    assert len(alone) == 600
    ids, loss = torch.arange(8), DebiasedNTXentLoss(temperature=0.5)
    z0, z1 = z[:8].float(), z[8:16].float()
    told = loss(z0, z1, **known.arguments(ids))
    assert told == loss(z0, z1, **source.arguments(ids), strength=known.strength)
    assert told != loss(z0, z1, **source.arguments(ids))


def test_a_small_q_of_the_labelled_pairs_does_not_cut_off_the_others() -> None:
    z, labels = world(300)
    same = torch.where(labels.unsqueeze(1) == labels, 0.5, 0.0)
    same[:100, :100] *= 0.1
    few = torch.where(torch.arange(300) < 100, labels, -1)
    for source in (Knowledge(graph=sparse.csr_array(same.float().fill_diagonal_(1).numpy())),
                   Knowledge(membership=same[torch.arange(300), 0].unsqueeze(1).sqrt().float() * 0.7)):  # fmt: skip
        known = choose_strength(source, z, few)
        q = source.same_class(torch.arange(300), torch.arange(300)).fill_diagonal_(0)
        assert known.strength is not None
        assert known.strength <= 1.0001 / float(q.max())
    graph = Knowledge(graph=sparse.csr_array(same.float().fill_diagonal_(1).numpy()))
    assert best_strength(z, few, graph) == pytest.approx(20, rel=1e-5)
    assert choose_strength(graph, z, few).strength == pytest.approx(2)


def test_without_labels_or_where_they_cannot_tell_the_safe_rule_holds() -> None:
    z, labels = world(60)
    hard = Knowledge(partitions=labels.unsqueeze(1))
    known = choose_strength(hard)
    assert (known.strength, known.reason) == safe_strength(hard)
    one_of_each = torch.full_like(labels, -1)
    for label in range(CLASSES):
        one_of_each[(labels == label).nonzero()[0]] = label
    for embeddings, given in ((z, one_of_each), (torch.ones(60, 4), labels)):
        unsure = choose_strength(hard, embeddings, given)
        assert unsure.strength == HARD_STRENGTH
        assert unsure.reason == f"The labels cannot tell. {known.reason}"
    with pytest.raises(ValueError, match="must be given together"):
        choose_strength(hard, z)
    with pytest.raises(ValueError, match="of the 60 rows of z; got 59 rows"):
        choose_strength(hard.of(torch.arange(59)), z, labels)
