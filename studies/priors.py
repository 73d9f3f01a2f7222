"""All estimators of the class prior on worlds where it is known: what they say beside what is true.

    python -m studies.priors --out results/priors

Every world's numbers go to one file of `--out`; a world whose file is there is skipped.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from debiased_contrastive.files import write_atomically
from debiased_contrastive.prior.clusters import cluster_prior
from debiased_contrastive.prior.estimate import PriorEstimate, Scores
from debiased_contrastive.prior.labels import collision_prior
from debiased_contrastive.prior.mixture import Method, mixture_prior
from debiased_contrastive.theory.worlds.von_mises_fisher import VonMisesFisherWorld, random_means

CLASSES = (2, 5, 10, 20, 100)
KAPPA = {2: 60.0, 5: 60.0, 10: 60.0, 20: 100.0, 100: 250.0}
"""Concentration of the classes, so that they are told apart in 64 dimensions."""
PAIRS, ITEMS, LABELS = (3000, 30_000), 5000, 500
SURROGATE = 4.0
"""Concentration of stand-ins around their anchor, as a multiple of the classes'."""
METHODS = ("labels", *get_args(Method), "clusters")


def world_of(classes: int, sizes: str) -> VonMisesFisherWorld:
    """Classes in random directions; uneven: the k-th has a share in proportion to 1 / (k + 1)."""
    generator = torch.Generator().manual_seed(classes)
    ranks = torch.arange(2, classes + 2, dtype=torch.float64)
    shares = 1 / ranks if sizes == "uneven" else torch.ones_like(ranks)
    return VonMisesFisherWorld(random_means(classes, 64, generator), KAPPA[classes], priors=shares / shares.sum())


def scores_of(world: VonMisesFisherWorld, positives: str, generator: torch.Generator) -> Scores:
    """Similarities of positive pairs, of the class or stand-ins, and of random pairs."""
    x, labels = world.sample(PAIRS[0], generator)
    own = positives == "true"
    y = world.members(labels, generator) if own else world.surrogates(x, SURROGATE * world.kappa, generator)
    u, _ = world.sample(2 * PAIRS[1], generator)
    return Scores(_similarity(x, y), _similarity(u[::2], u[1::2]))


def compared(classes: int, sizes: str, positives: str) -> dict[str, Any]:
    """Every estimate in one world."""
    world = world_of(classes, sizes)
    generator = torch.Generator().manual_seed(0)
    scores = scores_of(world, positives, generator)
    x, labels = world.sample(ITEMS, generator)
    found: list[PriorEstimate] = [collision_prior(labels[:LABELS].numpy())]
    found += [mixture_prior(scores, method) for method in get_args(Method)]
    found.append(cluster_prior(x.numpy()))
    return {
        "classes": classes,
        "sizes": sizes,
        "positives": positives,
        "truth": float(world.prior.square().sum()),
        "estimates": [asdict(estimate) for estimate in found],
    }


def markdown(folder: Path) -> str:
    """One row for each world, one column for each estimator; a star where it warns."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    records.sort(key=lambda record: (record["positives"] != "true", record["sizes"], record["classes"]))
    header = ["positives", "classes", "true tau_plus", *METHODS]
    lines = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for record in records:
        world = [record["positives"], f"{record['classes']} {record['sizes']}", f"{record['truth']:.4f}"]
        lines.append([*world, *map(shown, record["estimates"])])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(estimate: dict[str, Any]) -> str:
    """An estimate as a cell of a table, with its interval; a star where it warns."""
    star = "*" if estimate["warnings"] else ""
    return f"{estimate['value']:.4f}{star} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def _similarity(x: Tensor, y: Tensor) -> Any:
    return (x * y).sum(1).numpy()


def main() -> None:
    """Compare in every world that has no file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for positives in ("true", "stand-in"):
        for sizes in ("even", "uneven"):
            for classes in CLASSES:
                path = out / f"{positives}-{sizes}-{classes}.json"
                if not path.exists():
                    write_atomically(path, json.dumps(compared(classes, sizes, positives), indent=1) + "\n")
                    print(path, flush=True)


if __name__ == "__main__":
    main()
