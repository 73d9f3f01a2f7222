"""Draw every figure anew: python -m figures [--out DIR]."""

import argparse
from pathlib import Path

from debiased_contrastive.files import write_atomically
from figures.all import FIGURES

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation from results/.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/figures", help="The folder of the figures.")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        write_atomically(arguments.out / f"{figure.name}.svg", figure.svg(ROOT / "results"))
        print(arguments.out / f"{figure.name}.svg")


if __name__ == "__main__":
    main()
