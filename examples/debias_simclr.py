"""Tutorial: debias a SimCLR loop. Three losses train the same small encoder on 2,000 images of the package."""

import torch
from torch import Tensor, nn

import debiased_contrastive as dc
from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.images.datasets import read_fashion_mnist

STEPS, BATCH = 120, 256


def pixels(split: str) -> tuple[Tensor, Tensor]:
    """Images as rows of 14 x 14 numbers, and their classes, which only the unbiased loss and the probe read."""
    images = read_fashion_mnist("train" if split == "train" else "test")
    assert images.labels is not None
    small = nn.functional.avg_pool2d(images.pixels.float() / 255, 2)
    return small.flatten(1), images.labels


def view(x: Tensor) -> Tensor:
    """A random view: other brightness, noise, and a third of the pixels missing."""
    return x * (0.5 + torch.rand(len(x), 1)) * (torch.rand_like(x) > 0.3) + 0.1 * torch.randn_like(x)


def train(loss: dc.DebiasedNTXentLoss, *, with_labels: bool = False) -> float:
    """Train with one loss; the kNN accuracy on test images, in percent."""
    torch.manual_seed(0)
    x, labels = pixels("train")
    encoder = nn.Sequential(nn.Linear(196, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(STEPS):
        chosen = torch.randint(len(x), (BATCH,))
        z0, z1 = encoder(view(x[chosen])), encoder(view(x[chosen]))
        value = loss(z0, z1, labels=labels[chosen]) if with_labels else loss(z0, z1)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    with torch.no_grad():
        test, wanted = pixels("test")
        return 100 * knn_accuracy(encoder(x), labels, encoder(test), wanted, k=20)


def main() -> None:
    biased = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.0)  # this is NT-Xent
    debiased = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.1)  # ten classes, one sample in ten false
    unbiased = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.0)  # is told every label
    for name, loss in (("biased", biased), ("debiased", debiased), ("unbiased", unbiased)):
        accuracy = train(loss, with_labels=name == "unbiased")
        seen = loss.diagnostics
        floor = f"floored {seen.floored:.0%}   largest safe tau_plus {seen.tau_cap_low:.2f}"
        print(f"{name:<9} kNN {accuracy:.1f} %   {floor}")


if __name__ == "__main__":
    main()
