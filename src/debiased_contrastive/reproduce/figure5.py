"""Figure 5: maps of the biased, debiased and unbiased loss side by side (CIFAR10), by the runs of Figure 2."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from debiased_contrastive.report.numbers import markdown_table, mean_cell
from debiased_contrastive.reproduce import figure2
from debiased_contrastive.reproduce.item import Claim
from debiased_contrastive.reproduce.results import read_results
from debiased_contrastive.reproduce.simclr_rows import percent

MEASURES = {"cosine within a class": "within", "cosine between classes": "between", "uniformity": "uniformity"}


def markdown(folder: Path) -> str:
    """What a map shows, in numbers of the features themselves."""
    lines = []
    for name, runs in read_results(folder).items():
        found = [[100 * float(run["measures"][key]) for run in runs.values()] for key in MEASURES.values()]
        lines.append([figure2.LABELS.get(name, name), *map(mean_cell, found), str(len(runs))])
    return markdown_table(["objective", *(f"{what}, x 100" for what in MEASURES), "seeds"], lines)


def plot(folder: Path) -> Mapping[str, str]:
    """The maps of the first seed beside each other."""
    from debiased_contrastive.report.plots import draw_clouds, own_style, svg_file
    from debiased_contrastive.report.records import Cloud

    clouds = {}
    for name, label in figure2.LABELS.items():
        if found := read_results(folder).get(name, {}).get(0, {}).get("map"):
            points = tuple((x, y) for x, y in found["points"])
            clouds[label] = Cloud(points, tuple(found["labels"]), tuple(found["class_names"]))
    if not clouds:
        return {}
    with own_style():
        return {"figure5": svg_file(draw_clouds(clouds), "figure5")}


ITEM = replace(
    figure2.ITEM,
    name="figure5",
    title="Figure 5: maps of the features (CIFAR10)",
    tables=(markdown,),
    claims=(
        Claim(
            "The debiased loss separates classes better than the biased one",
            "debiased",
            "biased",
            percent("mean_classifier"),
            what="accuracy by the nearest class mean",
        ),
    ),
    plot=plot,
    note="The paper shows maps without numbers.",
    folders={scale: f"figure2-{scale}" for scale in ("smoke", "small", "paper")},
)
