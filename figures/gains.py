"""What was gained: by the paper's correction, by knowledge about classes, and beside the paper."""

from pathlib import Path
from statistics import fmean

from debiased_contrastive.paper import SENTENCE_SCORES, published_number
from debiased_contrastive.report.numbers import gap_closed, paired_differences
from debiased_contrastive.reproduce.results import Seeds, curve_points, read_percent, read_results
from figures.panel import Panel, Point, Row, row
from studies.membership_rows import ROWS

VIEWS = {
    "tau-0.1": "view as positive, τ⁺ 0.1",
    "tau-0.2": "view as positive, τ⁺ 0.2 (true)",
    "auto": "view as positive, τ⁺ auto",
    "views-4": "4 views as positives",
    "labels-0.1": "positives by 10 % of the labels",
    "labels-1.0": "positives by all labels",
}
KNOWN = {
    "own": "clusters of own features",
    "guide-walk": "guide: patches of the pixels",
    "classifier-10": "10 % of the labels",
    "classifier-10-strong": "10 % of the labels, strength 2",
    "guide-walk-attraction": "guide, with attraction",
    "cross-entropy-10": "10 %, cross-entropy instead",
    "classifier-10-attraction": "10 % of the labels, attraction",
    "both-10": "10 %, attraction and cross-entropy",
}
PROBES = {"linear probe": "linear_top1", "nearest neighbours": "knn", "mean classifier": "mean_classifier"}


def gains(results: dict[str, Seeds], name: str, key: str) -> list[float]:
    """Differences to biased training in points, seed by seed."""
    return paired_differences(read_percent(results[name], key), read_percent(results["biased"], key))


def headline(folder: Path) -> tuple[Panel, ...]:
    """Gain in nearest neighbours of the correction with views, and of knowledge about classes."""
    images = read_results(folder / "cifar10_small", "biased", "unbiased")
    fashion = read_results(folder / "membership/fashion", "biased", "unbiased")
    parts = (
        (images, VIEWS, "The paper's correction: CIFAR10, 5 classes", "debiased0"),
        (fashion, KNOWN, "Knowledge of classes: Fashion-MNIST", "unbiased"),
    )
    return tuple(
        Panel(
            tuple(row(label, gains(results, name, "knn"), colour) for name, label in labels.items()),
            "kNN points gained on biased training",
            title=title,
            marks=(("all labels", fmean(gains(results, "unbiased", "knn"))),),
        )
        for results, labels, title, colour in parts
    )


def cost(folder: Path) -> tuple[Panel, ...]:
    """What all labels gain, so what sampling bias costs."""
    places = {"CIFAR10, 5 classes": "cifar10_small", "Fashion-MNIST": "membership/fashion"}
    found = {name: read_results(folder / place, "biased", "unbiased") for name, place in places.items()}
    rows = tuple(
        row(f"{name}, {probe}", gains(results, "unbiased", key), "biased")
        for name, results in found.items()
        for probe, key in PROBES.items()
    )
    return (Panel(rows, "points of accuracy lost to false negatives"),)


def membership(folder: Path) -> tuple[Panel, ...]:
    """Gains by how much of the labels is known, for three probes."""
    results = read_results(folder / "membership/fashion", "biased", "unbiased")
    rows = {
        "classifier-2": "2 %",
        "classifier-10": "10 %",
        "classifier-10-strong": "10 %, strength 2",
        "unbiased": "100 %",
    }
    return tuple(
        Panel(
            tuple(row(label, gains(results, name, key), "unbiased") for name, label in rows.items()),
            "points gained",
            title=probe,
        )
        for probe, key in PROBES.items()
    )


def force_share(folder: Path) -> tuple[Panel, ...]:
    """What an audit says of a source before training, beside what training with it closed."""
    results = read_results(folder / "membership/fashion", "biased", "unbiased", "before")
    before = [run["before"] for run in results["before"].values()]
    points = []
    for name, known in ROWS.items():
        if name in results and all(name in one for one in before) and len(results[name]) > 1:
            seeds = results[name].keys() & results["biased"].keys() & results["unbiased"].keys()
            means = [
                fmean(read_percent(results[one], "knn")[seed] for seed in seeds)
                for one in ("biased", name, "unbiased")
            ]
            share = fmean(one[name]["force_share"] for one in before)
            points.append(Point(known.label, share, 100 * gap_closed(*means), "debiased0"))
    return (Panel(tuple(points), "force share, measured before training", "kNN gap closed by training, %"),)


def beside_the_paper(folder: Path) -> tuple[Panel, ...]:
    """Gains on biased training: the paper's, and ours at a small scale."""
    images = read_results(folder / "cifar10_small", "biased")
    colours = read_results(folder / "cmc", "biased")
    novels = read_results(folder / "novels", "biased")
    ours = (
        row("SimCLR, linear: ours, CIFAR10 5 classes", gains(images, "tau-0.1", "linear_top1"), "debiased0"),
        row("CMC, top-1: ours, Tiny ImageNet 100", gains(colours, "tau-0.01-biased", "linear_top1"), "debiased0"),
        row("six sentence tasks: ours, 76 novels", _sentence_gains(novels), "debiased0"),
    )
    stl10, imagenet = (
        [published_number(data, kind, tau_plus=tau) or 0.0 for kind in ("debiased", "biased")]
        for data, tau in (("stl10", 0.1), ("imagenet100", 0.01))
    )
    means = [
        fmean(value for task, value in SENTENCE_SCORES[tau].items() if task != "MSRP F1") for tau in (0.01, 0.0)
    ]
    theirs = [
        Row(label, own - biased, None, "other")
        for label, (own, biased) in (
            ("SimCLR, linear: paper, STL10", stl10),
            ("CMC, top-1: paper, ImageNet-100", imagenet),
            ("six sentence tasks: paper, BookCorpus", means),
        )
    ]
    rows = tuple(one for pair in zip(theirs, ours, strict=True) for one in pair)
    return (Panel(rows, "points gained by the correction"),)


def _sentence_gains(results: dict[str, Seeds]) -> list[float]:
    def mean(run: dict[str, dict[str, dict[str, float]]]) -> float:
        return fmean(100 * task["accuracy"] for task in run["tasks"].values())

    return paired_differences(
        {seed: mean(run) for seed, run in results["tau-0.01"].items()},
        {seed: mean(run) for seed, run in results["biased"].items()},
    )


def agents(folder: Path) -> tuple[Panel, ...]:
    """Returns of agents at the end of training."""
    labels = {
        "none": ("without contrast", "other"),
        "biased": ("biased", "biased"),
        "tau-0.1-M1": ("debiased, M = 1", "debiased0"),
        "tau-0.1-M2": ("debiased, M = 2", "debiased1"),
    }
    panels = []
    for task in ("cartpole-swingup", "walker-walk"):
        results = read_results(folder / "control" / task, "biased")
        rows = tuple(
            row(label, [curve_points(run["course"], "return")[-1][1] for run in results[name].values()], colour)
            for name, (label, colour) in labels.items()
        )
        panels.append(Panel(rows, "return at the end", title=task))
    return tuple(panels)
