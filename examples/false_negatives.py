"""What false negatives do to an embedding, and what debiasing repairs, on data whose classes are known.

Ten classes; an input is its class plus its own character plus noise, seen through a random network. Two
views differ in the noise. Four encoders start equal and are trained on the same batches: with the biased
loss; the debiased loss, whose positive is the other view; the debiased loss that knows the labels of half
the inputs and uses them as positives; and the unbiased loss, which is told every label. Then each embedding
is asked for the class by the nearest class mean. Prints a table; nothing is written.
"""

import argparse

import torch
from torch import Tensor, nn

import debiased_contrastive as dc

CLASSES, LATENT, OBSERVED, FEATURES = 10, 12, 64, 16


class World:
    """A fixed mixture, and a fixed network through which it is seen."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.means = 1.6 * self.draw(CLASSES, LATENT)
        self.lens = [self.draw(2 * LATENT, OBSERVED) / 4, self.draw(OBSERVED, OBSERVED) / 8]

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def batch(self, b: int) -> tuple[Tensor, Tensor, Tensor]:
        """Two views (b, OBSERVED) and the labels (b,)."""
        labels = torch.randint(CLASSES, (b,), generator=self.generator)
        inputs = torch.cat([self.means[labels] + self.draw(b, LATENT), 1.5 * self.draw(b, LATENT)], 1)
        z0, z1 = (self.seen(inputs + 0.3 * self.draw(*inputs.shape)) for _ in range(2))
        return z0, z1, labels

    def seen(self, inputs: Tensor) -> Tensor:
        return torch.tanh(inputs @ self.lens[0]) @ self.lens[1]


def accuracy(encoder: nn.Module, world: World) -> float:
    """Nearest class mean of 2,000 inputs, on 2,000 others, in per cent."""
    x, _, labels = world.batch(2000)
    y, _, wanted = world.batch(2000)
    with torch.no_grad():
        z, w = (nn.functional.normalize(encoder(views), dim=1) for views in (x, y))
    means = torch.stack([z[labels == k].mean(0) for k in range(CLASSES)])
    return 100 * ((w @ means.T).argmax(1) == wanted).double().mean().item()


def labels_for(objective: str, labels: Tensor) -> dict[str, Tensor]:
    """What the loss of that name is told."""
    if objective == "half known":
        return {"positive_labels": torch.where(torch.arange(len(labels)) % 2 == 0, labels, -1)}
    return {"labels": labels} if objective == "unbiased" else {}


def run(objective: str, steps: int, batch: int, seed: int) -> tuple[float, dc.Diagnostics]:
    """Train one encoder; its accuracy, and what the loss saw last."""
    torch.manual_seed(seed)
    world = World(seed)
    encoder = nn.Sequential(nn.Linear(OBSERVED, 128), nn.ReLU(), nn.Linear(128, FEATURES))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    loss = dc.DebiasedNTXentLoss(temperature=0.5, tau_plus=0.0 if objective == "biased" else 1 / CLASSES)
    for _ in range(steps):
        z0, z1, labels = world.batch(batch)
        value = loss(encoder(z0), encoder(z1), **labels_for(objective, labels))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return accuracy(encoder, world), loss.diagnostics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.seeds) < 1 or arguments.batch < 2:
        parser.error("steps and seeds must be at least 1, batch at least 2")
    print(f"{2 * (arguments.batch - 1)} unlabeled samples per anchor, one in {CLASSES} of them a false negative")
    print(f"{'objective':<10} {'accuracy by seed, %':<24} {'mean':>6}   on the floor   largest safe tau_plus")
    for objective in ("biased", "debiased", "half known", "unbiased"):
        runs = [run(objective, arguments.steps, arguments.batch, seed) for seed in range(arguments.seeds)]
        each = " ".join(f"{value:.1f}" for value, _ in runs)
        mean = sum(value for value, _ in runs) / len(runs)
        seen = runs[-1][1]
        print(
            f"{objective:<10} {each:<24} {mean:>6.1f}   {seen.floored:>12.1%}   {seen.tau_cap_low:>21.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
