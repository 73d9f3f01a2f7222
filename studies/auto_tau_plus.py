"""tau_plus="auto" beside the biased loss and tau_plus = 1/K, on worlds where the unbiased loss is known.

python -m studies.auto_tau_plus --out results/auto_tau_plus
python -m studies.auto_tau_plus --tables results/auto_tau_plus
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.files import read_json
from debiased_contrastive.losses.auto import CALLS_PER_LOOK, AutoTauPlus
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.report.numbers import markdown_table
from debiased_contrastive.reproduce.runner import Job
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means
from studies.command import Study, main

TEMPERATURES = (0.5, 0.2, 0.1, 0.07)
QUERIES, NEGATIVES, BATCHES = 256, 510, 40
MISTAKEN = (0.5, 2.0)
"""Wrong priors that "auto" is also given, as multiples of the true one."""


class World(NamedTuple):
    """A mixture of classes in random directions, and what stands in for a sample of the anchor's class."""

    name: str
    classes: int
    kappa: float
    surrogate: float | None
    """Concentration of positives around their anchor, as a multiple of the class's; None: samples of the class."""
    uneven: bool = False

    def make(self, temperature: float) -> VonMisesFisherWorld:
        """The world at this temperature."""
        means = random_means(self.classes, 32 if self.classes < 100 else 64, torch.Generator().manual_seed(0))
        ranks = torch.arange(2, self.classes + 2, dtype=torch.float64)
        shares = 1 / ranks if self.uneven else torch.ones_like(ranks)
        return VonMisesFisherWorld(means, self.kappa, temperature, shares / shares.sum())


WORLDS = (
    World("ten", 10, 60.0, 4.0),
    World("ten-near", 10, 60.0, 1.5),
    World("ten-tight", 10, 200.0, 4.0),
    World("ten-overlapping", 10, 20.0, 4.0),
    World("ten-overlapping-near", 10, 20.0, 1.5),
    World("ten-uneven", 10, 60.0, 4.0, uneven=True),
    World("two", 2, 60.0, 4.0),
    World("hundred", 100, 200.0, 4.0),
    World("ten-true", 10, 60.0, None),
)


def make_jobs(_flags: Namespace) -> Iterator[Job]:
    """Every world at every temperature."""
    for world, temperature in product(WORLDS, TEMPERATURES):
        yield Job(f"{world.name}-{temperature}", partial(compare, world, temperature))


def compare(world: World, temperature: float) -> dict[str, Any]:
    """Loss, gradient and share on the floor of every setting, over the same batches, once "auto" has seen a few."""
    mixture = world.make(temperature)
    prior = float(mixture.prior.square().sum())
    losses = {
        "unbiased": DebiasedInfoNCELoss(temperature, 0.0),
        "biased": DebiasedInfoNCELoss(temperature, 0.0),
        "1/K": DebiasedInfoNCELoss(temperature, 1 / world.classes),
        "auto": DebiasedInfoNCELoss(temperature, AutoTauPlus(prior, warm_up=0)),
        **{
            f"auto, prior x {factor}": DebiasedInfoNCELoss(temperature, AutoTauPlus(factor * prior, warm_up=0))
            for factor in MISTAKEN
            if factor * prior < 1
        },
    }
    found: dict[str, dict[str, list[float]]] = {
        name: {"loss": [], "floored": [], "tau_plus": [], "gradient_size": [], "gradient_error": []}
        for name in losses
    }
    generator = torch.Generator().manual_seed(1)
    for batch in range(BATCHES):
        query, labels = mixture.sample(QUERIES, generator)
        kappa = None if world.surrogate is None else world.surrogate * world.kappa
        key = mixture.members(labels, generator) if kappa is None else mixture.surrogates(query, kappa, generator)
        negatives, of_negatives = mixture.sample(NEGATIVES, generator)
        embeddings = tuple(z.requires_grad_() for z in (query, key, negatives))
        wanted = query.new_zeros(0)
        for name, loss in losses.items():
            oracle = {"labels": labels, "negative_labels": of_negatives} if name == "unbiased" else {}
            value = loss(*embeddings, **oracle)
            if batch >= BATCHES - 2 * CALLS_PER_LOOK:
                gradient = torch.cat([part.flatten() for part in torch.autograd.grad(value, embeddings)])
                wanted = gradient if name == "unbiased" else wanted
                seen = loss.diagnostics
                found[name]["loss"].append(value.item())
                found[name]["floored"].append(seen.floored)
                found[name]["tau_plus"].append(seen.tau_plus)
                found[name]["gradient_size"].append(float(gradient.norm() / wanted.norm()))
                found[name]["gradient_error"].append(float((gradient - wanted).norm() / wanted.norm()))
    return {
        "world": world._asdict(),
        "temperature": temperature,
        "prior": prior,
        **{
            name: {key: sum(values) / len(values) for key, values in columns.items()}
            for name, columns in found.items()
        },
    }


def is_closer(record: dict[str, Any]) -> bool:
    """Whether the loss with `auto` is nearer to the unbiased one than the biased loss and tau_plus = 1/K are."""
    distance = {name: abs(record[name]["loss"] - record["unbiased"]["loss"]) for name in ("biased", "1/K", "auto")}
    return bool(distance["auto"] < min(distance["biased"], distance["1/K"]))


def read_worlds(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder, in the order of the worlds, from high to low temperature."""
    paths = (folder / f"{world.name}-{temperature}.json" for world, temperature in product(WORLDS, TEMPERATURES))
    return [read_json(path) for path in paths if path.exists()]


def markdown(folder: Path) -> str:
    """One row for each world and temperature: losses, with the share of anchors on the floor in brackets.

    Then how large the gradient of three of them is, as a multiple of the unbiased one's.
    """
    names = ["unbiased", "biased", "1/K", "auto", *(f"auto, prior x {factor}" for factor in MISTAKEN)]
    header = ["world", "t", *names, "tau_plus of auto", "auto nearest", "gradient: biased, 1/K, auto"]
    lines = []
    for record in read_worlds(folder):
        cells = [_show(record[name]) if name in record else "-" for name in names]
        world = [record["world"]["name"], f"{record['temperature']}"]
        tau_plus, nearest = f"{record['auto']['tau_plus']:.4f}", "yes" if is_closer(record) else "no"
        sizes = ", ".join(f"{record[name]['gradient_size']:.2g}" for name in ("biased", "1/K", "auto"))
        lines.append([*world, *cells, tau_plus, nearest, sizes])
    return markdown_table(header, lines)


def _show(found: dict[str, float]) -> str:
    floored = f" ({100 * found['floored']:.0f} %)" if found["floored"] else ""
    return f"{found['loss']:.4f}{floored}"


STUDY = Study(make_jobs, (markdown,))

if __name__ == "__main__":
    main("studies.auto_tau_plus")
