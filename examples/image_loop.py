"""A loop that learns from images without their labels: SimCLR in plain torch, with the loss in one line.

2,000 images of Fashion-MNIST from the package, two random crops of each, a small convolutional encoder, a head.
At the end the labels are used for the first time: nearest neighbours classify 500 test images by the encoder's
features, before and after training. Prints a few lines; nothing is written.

Needs the extra vision, which reads the images.
"""

import argparse

import torch
from torch import Tensor, nn

import debiased_contrastive as dc
from debiased_contrastive.evaluation.geometry import knn_accuracy
from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.images.images import Images


def draw_view(images: Tensor, generator: torch.Generator) -> Tensor:
    """A random crop of each image at its own scale, perhaps mirrored, brighter or darker."""

    def draw(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(len(images), generator=generator)

    size = draw(0.5, 1.0)
    mirror = torch.where(draw(-1, 1) < 0, -1.0, 1.0)
    zeros = torch.zeros_like(size)
    rows = [torch.stack([size * mirror, zeros, (1 - size) * draw(-1, 1)], 1)]
    rows += [torch.stack([zeros, size, (1 - size) * draw(-1, 1)], 1)]
    grid = nn.functional.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False) * draw(0.6, 1.4)[:, None, None, None]


def make_encoder() -> nn.Module:
    """Features (b, 64) of images (b, 1, 28, 28)."""
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@torch.no_grad()
def accuracy(encoder: nn.Module, train: Images, test: Images) -> float:
    """Of 20 nearest neighbours, in per cent."""
    encoder.eval()
    assert train.labels is not None
    assert test.labels is not None
    x, y = (encoder(images.pixels / 255) for images in (train, test))
    found = knn_accuracy(x, train.labels, y, test.labels, k=20, temperature=0.1)
    encoder.train()
    return 100 * found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--tau-plus", type=float, default=0.05)
    arguments = parser.parse_args()
    if arguments.epochs < 1 or arguments.batch < 2:
        parser.error("epochs must be at least 1, batch at least 2")
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    train, test = read_fashion_mnist("train"), read_fashion_mnist("test")
    encoder = make_encoder()
    projector = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=3e-3)
    loss = dc.DebiasedNTXentLoss(temperature=0.2, tau_plus=arguments.tau_plus, on_floor="cap_tau")  # this line
    print(f"untrained: kNN {accuracy(encoder, train, test):.1f} %")
    for epoch in range(arguments.epochs):
        for chosen in torch.randperm(len(train.pixels), generator=generator).split(arguments.batch):
            images = train.pixels[chosen] / 255
            z0, z1 = (projector(encoder(draw_view(images, generator))) for _ in range(2))
            value = loss(z0, z1)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        seen = loss.diagnostics
        print(
            f"epoch {epoch + 1:2}: loss {value.item():.3f}, largest safe tau_plus {seen.tau_cap_low:.3f}",
            flush=True,
        )
    print(f"trained: kNN {accuracy(encoder, train, test):.1f} %")


if __name__ == "__main__":
    main()
