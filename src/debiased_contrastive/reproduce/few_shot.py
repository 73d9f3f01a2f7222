"""Few labels: what debiasing is worth where a class has 1, 5, 10 or 100 of them; runs are those of Figure 2.

Every evaluation of images measures it, so the tables of the other figures have such columns, too.
"""

from dataclasses import replace
from pathlib import Path

from debiased_contrastive.report.numbers import markdown_table, mean_cell, paired_differences
from debiased_contrastive.reproduce import figure2
from debiased_contrastive.reproduce.item import Claim
from debiased_contrastive.reproduce.results import read_percent, read_results
from debiased_contrastive.reproduce.simclr_rows import percent

KEYS = {
    "1 label": "few_shot_1",
    "5 labels": "few_shot_5",
    "10 labels": "few_shot_10",
    "100 labels": "few_shot_100",
    "all, linear": "linear_top1",
}


def markdown(folder: Path) -> str:
    """Accuracies by the number of labels a class, and what they gain on biased seed by seed."""
    results, levels, differences = read_results(folder), [], []
    for name in filter(results.__contains__, figure2.LABELS):
        found = [
            (read_percent(results[name], key), read_percent(results.get("biased", {}), key))
            for key in KEYS.values()
        ]
        label, cells = figure2.LABELS[name], [mean_cell(list(own.values())) for own, _ in found]
        levels.append([label, *cells, str(len(results[name]))])
        if name != "biased":
            differences.append([label, *(mean_cell(paired_differences(*two), "+") for two in found)])
    tables = [markdown_table(["objective", *KEYS, "seeds"], levels)]
    tables += [markdown_table(["objective - biased", *KEYS], differences)] if differences else []
    return "\n".join(tables)


ITEM = replace(
    figure2.ITEM,
    name="few-shot",
    title="Few labels: nearest class means of 1 to 100 labels a class",
    tables=(markdown,),
    claims=tuple(
        Claim(
            f"{words} with 10 labels a class",
            name,
            "biased",
            percent("few_shot_10"),
            what="accuracy",
            is_published=False,
        )
        for name, words in (
            ("debiased", "The debiased loss beats the biased one"),
            ("unbiased", "Unbiased negatives beat the biased loss"),
        )
    ),
    plot=lambda _folder: {},
    note="Means over 100 draws of the labels; intervals are over trainings. The paper has no such numbers.",
    folders={scale: f"figure2-{scale}" for scale in ("smoke", "small", "paper")},
)
