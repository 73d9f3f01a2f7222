"""On a world of known truth the force share ranks sources as training with them does."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import debiased_contrastive as dc
from tests.membership.test_force import noisy

CLASSES, TEMPERATURE = 5, 0.3


def draw(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs with six features of their class and ten of their own, and their classes."""
    means = torch.randn(CLASSES, 6, generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (n,), generator=generator)
    of_class = means[labels] + 0.8 * torch.randn(n, 6, generator=generator)
    return torch.cat([of_class, torch.randn(n, 10, generator=generator)], 1), labels


def trained(x: Tensor, seed: int, partitions: Tensor | None = None) -> nn.Module:
    """A linear encoder of noisy views, without knowledge or with partitions (n, 1)."""
    generator = torch.Generator().manual_seed(seed)
    encoder = nn.Linear(x.shape[1], 6, bias=False)
    nn.init.normal_(encoder.weight, std=0.2, generator=generator)
    loss, optimiser = dc.DebiasedNTXentLoss(TEMPERATURE, 0.0), torch.optim.Adam(encoder.parameters(), 1e-2)
    for _ in range(120):
        ids = torch.randperm(len(x), generator=generator)[:128]
        views = (x[ids] + 0.4 * torch.randn(128, x.shape[1], generator=generator) for _ in range(2))
        known = {} if partitions is None else {"partitions": partitions[ids]}
        optimiser.zero_grad()
        loss(*map(encoder, views), **known).backward()
        optimiser.step()
    return encoder


@torch.no_grad()
def separation(encoder: nn.Module, x: Tensor, labels: Tensor) -> float:
    """How much more similar unseen samples of one class are than those of two."""
    z = F.normalize(encoder(x))
    similarity, same = z @ z.T, labels.unsqueeze(1) == labels
    return float(similarity[same].mean() - similarity[~same].mean())


def test_sources_are_ranked_as_their_trainings_are() -> None:
    (x, labels), unseen = draw(800, 1), draw(800, 2)
    sources = [noisy(labels, accuracy, 0).unsqueeze(1) for accuracy in (1.0, 0.9, 0.7, 0.5, 0.2)]
    shares, gains = torch.zeros(5), torch.zeros(5)
    for seed in range(2):
        biased = trained(x, seed)
        z = biased(x).detach()
        for place, codes in enumerate(sources):
            shares[place] += dc.force_share(z, labels, partitions=codes, temperature=TEMPERATURE) / 2
            gains[place] += (separation(trained(x, seed, codes), *unseen) - separation(biased, *unseen)) / 2
    assert shares.tolist() == sorted(shares.tolist(), reverse=True)
    assert gains.tolist() == sorted(gains.tolist(), reverse=True)
    # Labels take the whole bias away, and chance nothing: of the force, and in what is learnt.
    assert shares[0] > 0.999
    assert gains[0] > 0.1
    assert abs(shares[4]) < 0.05
    assert abs(gains[4]) < 0.1 * gains[0]
    assert torch.corrcoef(torch.stack([shares, gains]))[0, 1] > 0.95
