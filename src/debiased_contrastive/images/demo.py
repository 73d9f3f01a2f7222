"""The first run on images: what sampling bias costs, and what wins it back."""

from dataclasses import replace
from pathlib import Path

from debiased_contrastive.domain import KNN, LINEAR, Demo
from debiased_contrastive.images.domain import FEW_SHOT
from debiased_contrastive.images.evaluate import evaluate
from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.presets import DEMO_SETTINGS
from debiased_contrastive.images.settings import SimCLRObjective, SimCLRSettings

_TRAINING = replace(
    DEMO_SETTINGS.training, epochs=40, batch=128, learning_rate=2e-3, schedule="cosine", knn_every=10
)
"""Long enough that classes begin to form: bias shows late."""
_FEW_LABELS = ImageMembership("classifier", known=0.1, strength=2.0, num_classes=10, refresh=10)
_KNOWN = {
    "few-labels": _FEW_LABELS,
    "few-labels-attraction": replace(_FEW_LABELS, strength=1.0, attraction=0.5),
    "guide": ImageMembership("guide", form="walk", strength=4.0, num_classes=10, attraction=0.5),
}
"""What is known about classes: a tenth of the labels, or patches of the images alone."""


def demo_settings(_folder: Path) -> dict[str, SimCLRSettings]:
    """The settings of the demonstration; with ten balanced classes tau_plus is 0.1."""
    encoder = replace(DEMO_SETTINGS.encoder, width=16)
    debiased = SimCLRObjective(tau_plus=0.1, temperature=0.2)
    base = replace(DEMO_SETTINGS, encoder=encoder, training=_TRAINING, objective=debiased)
    return {
        "biased": replace(base, objective=replace(debiased, kind="biased")),
        "debiased": base,
        **{name: replace(base, membership=known) for name, known in _KNOWN.items()},
        "unbiased": replace(base, objective=replace(debiased, kind="unbiased")),
    }


DEMO = Demo(
    title="What sampling bias costs on Fashion-MNIST, and what wins it back",
    seeds=1,
    settings=demo_settings,
    result="few_shot",
    evaluate=evaluate,
    columns=(FEW_SHOT[5], KNN, LINEAR),
    meaning=(
        "Contrastive learning pushes every image away from all others, also from those of its own class: that is "
        "sampling bias. The biased run leaves it as it is; the unbiased one reads all labels, so that it pushes "
        "away other classes alone. Between them are the paper's correction (debiased), which knows only how "
        "frequent classes are, and memberships, which know something of who shares a class: from a tenth of the "
        "labels, or without any label from a guide, which compares patches of the images."
    ),
)
