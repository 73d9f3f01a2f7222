"""tau_plus="auto" beside the biased loss and tau_plus = 1/K, on worlds where the unbiased loss is known.

    python -m studies.auto_tau_plus --out results/auto_tau_plus

Every world's numbers go to one file of `--out`; a world whose file is there is skipped.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from debiased_contrastive.files import write_atomically
from debiased_contrastive.losses.auto import EVERY, AutoTauPlus
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, random_means

TEMPERATURES = (0.5, 0.2, 0.1, 0.07)
QUERIES, NEGATIVES, BATCHES = 256, 510, 40
MISTAKEN = (0.5, 2.0)
"""Multiples of the true prior that "auto" is told as well."""


class World(NamedTuple):
    """A mixture of classes in random directions, and what stands in for a sample of the anchor's class."""

    name: str
    classes: int
    kappa: float
    surrogate: float | None
    """Concentration of positives around their anchor, as a multiple of the class's; None: samples of the class."""
    uneven: bool = False

    def made(self, temperature: float) -> VonMisesFisherWorld:
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


def compared(world: World, temperature: float) -> dict[str, Any]:
    """Losses of every setting over the same batches, after `auto` has seen a few, and shares on the floor."""
    made = world.made(temperature)
    prior = float(made.prior.square().sum())
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
        query, labels = made.sample(QUERIES, generator)
        kappa = None if world.surrogate is None else world.surrogate * world.kappa
        key = made.members(labels, generator) if kappa is None else made.surrogates(query, kappa, generator)
        negatives, of_negatives = made.sample(NEGATIVES, generator)
        embeddings = tuple(z.requires_grad_() for z in (query, key, negatives))
        wanted = query.new_zeros(0)
        for name, loss in losses.items():
            oracle = {"labels": labels, "negative_labels": of_negatives} if name == "unbiased" else {}
            value = loss(*embeddings, **oracle)
            if batch >= BATCHES - 2 * EVERY:
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


def records_of(folder: Path) -> list[dict[str, Any]]:
    """All results of a folder, in the order of the worlds, warm to cold."""
    order = [world.name for world in WORLDS]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(records, key=lambda found: (order.index(found["world"]["name"]), -found["temperature"]))


def markdown(folder: Path) -> str:
    """One row for each world and temperature: losses, with the share of anchors on the floor in brackets.

    Then how large the gradient of three of them is, as a multiple of the unbiased one's.
    """
    names = ["unbiased", "biased", "1/K", "auto", *(f"auto, prior x {factor}" for factor in MISTAKEN)]
    header = ["world", "t", *names, "tau_plus of auto", "auto nearest", "gradient: biased, 1/K, auto"]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for record in records_of(folder):
        cells = [_shown(record[name]) if name in record else "-" for name in names]
        world = [record["world"]["name"], f"{record['temperature']}"]
        tau_plus, nearest = f"{record['auto']['tau_plus']:.4f}", "yes" if is_closer(record) else "no"
        sizes = ", ".join(f"{record[name]['gradient_size']:.2g}" for name in ("biased", "1/K", "auto"))
        lines.append([*world, *cells, tau_plus, nearest, sizes])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(found: dict[str, float]) -> str:
    floored = f" ({100 * found['floored']:.0f} %)" if found["floored"] else ""
    return f"{found['loss']:.4f}{floored}"


def main() -> None:
    """Compare in every world that has no file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for world in WORLDS:
        for temperature in TEMPERATURES:
            path = out / f"{world.name}-{temperature}.json"
            if not path.exists():
                write_atomically(path, json.dumps(compared(world, temperature), indent=1) + "\n")
                print(path, flush=True)


if __name__ == "__main__":
    main()
