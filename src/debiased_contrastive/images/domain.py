"""Images as a domain for the command line and the report. Never imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from debiased_contrastive.domain import (
    KNN,
    LINEAR,
    LINEAR_TOP5,
    LOSS,
    MEAN_CLASSIFIER,
    Content,
    Demo,
    Domain,
    Metric,
    Work,
    finite_number,
    section,
)
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.settings import ImageSettings, move_data, read_settings, with_whole_paths
from debiased_contrastive.paper import SIMCLR, published_number

_DATA_NAMES = {
    "fashion": "Fashion-MNIST (the part that comes with the package)",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "stl10": "STL-10",
    "folder": "a folder of images",
    "hf": "a Hugging Face data set",
    "dataset": "a data set from Python",
}
FEW_SHOT = {
    count: Metric(
        f"few_shot_{count}",
        words,
        "nearest class mean of so few, over 100 draws",
        place=("few_shot", str(count)),
        in_words=f"that of the nearest class mean of {words}, over 100 draws of them, on test samples",
    )
    for count, words in {
        1: "1 label a class",
        5: "5 labels a class",
        10: "10 labels a class",
        100: "100 labels a class",
    }.items()
}
"""Few-shot accuracies, by the number of labels a class."""
_OFFICIAL = (
    ("last_top1", "Official top-1", "probe of the released code, after its last epoch"),
    ("last_top5", "Official top-5", "the class is among its five likeliest"),
    ("best_top1", "Official best", "best epoch of that probe, chosen on test, so it flatters"),
)


_WORTH = (
    Metric(
        "force_share",
        "Force share of the membership",
        "Share of the bias of the force on embeddings that the membership removes: 100 as all labels, 0 as none.",
    ),
    Metric(
        "membership_accuracy",
        "Accuracy of the membership",
        "How often the class of most of those that probably share an image's class is its own.",
    ),
    Metric(
        "membership_strength",
        "Strength of the membership",
        "Factor of the probability that two images share a class, as it was chosen.",
        percent=False,
    ),
    Metric(
        "effective_number",
        "Effective number of negatives",
        "Number of equal weights that would average as well as those of the membership.",
        percent=False,
    ),
)
"""What a membership was worth while training."""


def _describe_data(settings: Content) -> str:
    data = section(settings, "data")
    name, classes = data.get("name"), data.get("classes")
    if name is None:
        return ""
    known = _DATA_NAMES.get(str(name), str(name))
    if not isinstance(classes, list) or not classes:
        return known
    return f"{len(classes)} {'class' if len(classes) == 1 else 'classes'} of {known}"


def _published(settings: Content) -> float | None:
    objective = section(settings, "objective")
    # The published runs had no hard negatives, queue, bank or labels, and a constant tau_plus.
    if any(objective.get(key) for key in ("beta", "known_labels", "auto")):
        return None
    if objective.get("negatives") in ("queue", "bank") or section(settings, "membership"):
        return None
    return published_number(
        str(section(settings, "data").get("name")),
        str(objective.get("kind")),
        tau_plus=finite_number(objective.get("tau_plus")) or 0.0,
        num_positives=objective.get("num_positives", 1),
    )


def _describe_published(all_settings: Sequence[Content]) -> str:
    source = (
        f"Paper: numbers of the released code ({SIMCLR.encoder}, {SIMCLR.epochs} epochs, batch {SIMCLR.batch}, "
        "official probe; how many runs is not said)."
    )
    differences = dict.fromkeys(part for settings in all_settings for part in _differences(settings))
    if not differences:
        return source
    return f"{source} The setting here differs, so compare differences, not levels: {', '.join(differences)}."


def _differences(settings: Content) -> list[str]:
    training = section(settings, "training")
    pairs = (
        ("encoder", section(settings, "encoder").get("name"), SIMCLR.encoder),
        ("epochs", training.get("epochs"), SIMCLR.epochs),
        ("batch", training.get("batch"), SIMCLR.batch),
        ("temperature", section(settings, "objective").get("temperature"), SIMCLR.temperature),
    )
    return [f"{name} {ours}" for name, ours, theirs in pairs if ours is not None and ours != theirs]


@dataclass(frozen=True)
class ImageFlags:
    """Flags of `debiased train` that are no settings."""

    download: bool = False
    """Download the official archive to --data.root first, if it is not there."""


def _load() -> Work:
    from debiased_contrastive.images import evaluate, frozen, run

    return Work(run.open_images, run.train, evaluate.evaluate, evaluate.embed, frozen.load_encoder)


def _demo() -> Demo:
    from debiased_contrastive.images.demo import DEMO

    return DEMO


def _cost(settings: ImageSettings) -> tuple[str, str, str, str]:
    from debiased_contrastive.images.networks import describe_cost

    return describe_cost(settings)


IMAGES = Domain(
    name="images",
    extra="vision",
    unit="images",
    presets=PRESETS,
    read_settings=read_settings,
    load=_load,
    flags=ImageFlags,
    settle=lambda settings, _flags: with_whole_paths(settings),
    move=move_data,
    evaluate_flags=frozenset({"official", "data_root", "test_root"}),
    embeds="images",
    demo=_demo,
    cost=_cost,
    results=(
        LINEAR,
        LINEAR_TOP5,
        *(Metric(f"official_{key}", name, what, place=("official", key)) for key, name, what in _OFFICIAL),
        KNN,
        MEAN_CLASSIFIER,
        *FEW_SHOT.values(),
    ),
    mains=(LINEAR,),
    describe_data=_describe_data,
    curves=(LOSS, Metric("knn", "kNN accuracy", "Accuracy of nearest neighbours while training."), *_WORTH),
    label_words={"data.name": "{}", "encoder.name": "encoder {}"},
    summary_words={"encoder.name": ("with encoder {}", "with encoders {}")},
    published=_published,
    describe_published=_describe_published,
)
