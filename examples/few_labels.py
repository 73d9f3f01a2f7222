"""Tutorial: few labels, or groups. What is known about classes goes into the loss in place of tau_plus."""

from dataclasses import replace

import torch
from torch import Tensor, nn

import debiased_contrastive as dc
from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.membership.classifier import from_few_labels
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups, from_labels
from debiased_contrastive.membership.strength import choose_strength

STEPS, BATCH = 120, 256
TRAIN, TEST = read_fashion_mnist("train"), read_fashion_mnist("test")


def rows(pixels: Tensor) -> Tensor:
    """Images as rows of 14 x 14 numbers."""
    return nn.functional.avg_pool2d(pixels.float() / 255, 2).flatten(1)


def train(known: Knowledge | None) -> nn.Module:
    """Train an encoder with the knowledge, or with none; a view has other brightness, noise, missing pixels."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(196, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    loss = dc.DebiasedNTXentLoss(temperature=0.2, tau_plus=0.0)
    for _ in range(STEPS):
        ids = torch.randint(len(TRAIN.pixels), (BATCH,))
        x = rows(TRAIN.pixels[ids]).repeat(2, 1)
        views = x * (0.5 + torch.rand(len(x), 1)) * (torch.rand_like(x) > 0.3) + 0.1 * torch.randn_like(x)
        z0, z1 = encoder(views).chunk(2)
        value = loss(z0, z1, **(known.arguments(ids) if known else {}))  # the knowledge about these images
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return encoder


@torch.no_grad()
def accuracy(encoder: nn.Module) -> float:
    """Accuracy of the nearest class mean on test images, in percent."""
    assert TRAIN.labels is not None
    assert TEST.labels is not None
    z, w = (nn.functional.normalize(encoder(rows(images.pixels)), dim=1) for images in (TRAIN, TEST))
    means = torch.stack([z[TRAIN.labels == k].mean(0) for k in range(10)])
    return 100 * ((w @ means.T).argmax(1) == TEST.labels).double().mean().item()


def main() -> None:
    classes = TRAIN.labels
    assert classes is not None
    biased = train(None)
    print(f"biased, nothing known      {accuracy(biased):.1f} %")

    # A few labels: a classifier on the features of the biased encoder says what the other images probably are.
    some = torch.where(torch.arange(len(classes)) < 200, classes, -1)  # 200 labels of 2,000; -1 is unknown
    with torch.no_grad():
        features = biased(rows(TRAIN.pixels))
    known = from_few_labels(features, some, labelled="cross-fitted")
    known = choose_strength(known, features, some, temperature=0.2)  # the one with the largest force share
    for strength in (known.strength, 2.0):
        print(f"200 labels, strength {strength:.1f}   {accuracy(train(replace(known, strength=strength))):.1f} %")

    # Groups: categories of a shop that are mostly right.
    torch.manual_seed(1)
    wrong = torch.rand(len(classes)) < 0.15
    groups = from_groups(torch.where(wrong, torch.randint(10, classes.shape), classes))
    print(f"groups, about 86 % right   {accuracy(train(groups)):.1f} %")
    print(f"unbiased, all labels       {accuracy(train(from_labels(classes))):.1f} %")


if __name__ == "__main__":
    main()
