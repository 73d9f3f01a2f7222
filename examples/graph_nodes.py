"""Contrastive embeddings of nodes, when the classes of a few of them are known.

A graph of five classes: nodes of one class are linked more often than others, and their features say a little about
the class. A two-layer graph convolution in plain torch sees two views, from which links and features were dropped,
and pulls the two embeddings of each node together. One in five of the other nodes is a false negative. Compared are
the biased loss; the debiased one; one that is told a membership; the same with attraction, where probable mates are
pulled, too; and the unbiased loss, which knows every class. The membership is from six known nodes of each class:
a softmax regression on features that were averaged over neighbours. Embeddings are judged by the nearest class mean
of the same known nodes; the membership alone is judged beside them. Prints a table; nothing is written.
"""

import argparse
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import debiased_contrastive as dc

NODES, CLASSES, FEATURES, WIDTH = 300, 5, 32, 32
WITHIN, BETWEEN = 0.1, 0.02
"""Probability of a link in a class, and between two."""
KNOWN = 6
"""Nodes of each class whose class is known."""


class Graph:
    """A stochastic block model with noisy features."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.classes = torch.arange(NODES) % CLASSES
        self.known = torch.arange(NODES) < KNOWN * CLASSES
        same = self.classes.unsqueeze(1) == self.classes
        self.links = self.draw_links(torch.where(same, WITHIN, BETWEEN))
        means = torch.randn(CLASSES, FEATURES, generator=self.generator)
        self.features = 0.2 * means[self.classes] + torch.randn(NODES, FEATURES, generator=self.generator)

    def draw_links(self, probability: Tensor | float) -> Tensor:
        """A symmetric matrix of ones, each with that probability, and zeros."""
        drawn = (torch.rand(NODES, NODES, generator=self.generator) < probability).float().triu(1)
        return drawn + drawn.T

    def view(self, kept: float = 0.7) -> tuple[Tensor, Tensor]:
        """The features and links, of which that share is kept."""
        seen = torch.rand(FEATURES, generator=self.generator) < kept
        return self.features * seen, self.links * self.draw_links(kept)

    def membership(self) -> Tensor:
        """Probability of each class (NODES, CLASSES), learnt from the known nodes."""
        mean = average(self.links)
        x = F.normalize(mean @ mean @ self.features, dim=1) * FEATURES**0.5
        weight = torch.zeros(FEATURES, CLASSES, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.05)
        for _ in range(100):
            loss = F.cross_entropy(x[self.known] @ weight, self.classes[self.known]) + 0.02 * weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        guessed = torch.softmax(x @ weight, 1).detach()
        return torch.where(self.known.unsqueeze(1), F.one_hot(self.classes, CLASSES).float(), guessed)


def average(links: Tensor) -> Tensor:
    """The matrix that averages over a node and its neighbours."""
    links = links + torch.eye(len(links))
    scale = links.sum(1).rsqrt()
    return scale.unsqueeze(1) * links * scale


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, features: Tensor, links: Tensor) -> Tensor:
        mean = average(links)
        z: Tensor = mean @ self.second(torch.relu(mean @ self.first(features)))
        return z


def score(guessed: Tensor, graph: Graph) -> float:
    """Per cent of the unknown nodes whose class is guessed."""
    return 100 * (guessed == graph.classes)[~graph.known].double().mean().item()


def train(seed: int, steps: int, tau_plus: float = 0.0, attraction: float = 0.0, **told: Any) -> float:
    """Accuracy of embeddings that were trained with what the loss is told."""
    graph = Graph(seed)
    torch.manual_seed(seed)
    encoder = Convolution()
    head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    loss = dc.DebiasedNTXentLoss(0.2, tau_plus, on_floor="cap_tau", attraction=attraction)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=5e-3)
    for _ in range(steps):
        value = loss(*(head(encoder(*graph.view())) for _ in range(2)), **told)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    with torch.no_grad():
        z = F.normalize(encoder(graph.features, graph.links), dim=1)
    means = torch.stack([z[graph.known & (graph.classes == k)].mean(0) for k in range(CLASSES)])
    return score((z @ means.T).argmax(1), graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.seeds) < 1:
        parser.error("steps and seeds must be at least 1")
    rows: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        graph = Graph(seed)
        known, steps = graph.membership(), arguments.steps
        for name, accuracy in (
            ("biased", train(seed, steps)),
            ("debiased", train(seed, steps, tau_plus=1 / CLASSES)),
            ("membership", train(seed, steps, membership=known)),
            ("membership, attraction", train(seed, steps, attraction=0.5, membership=known)),
            ("unbiased", train(seed, steps, labels=graph.classes)),
            ("the membership alone", score(known.argmax(1), graph)),
        ):
            rows.setdefault(name, []).append(accuracy)
    print(f"{NODES} nodes, {KNOWN * CLASSES} of them known, {CLASSES} classes")
    print(f"{'loss':<24} {'accuracy by seed, %':<24} {'mean':>6}")
    for name, values in rows.items():
        each = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:<24} {each:<24} {sum(values) / len(values):>6.1f}")


if __name__ == "__main__":
    main()
