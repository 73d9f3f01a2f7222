"""What is measured of a run of SimCLR: probes, the effective prior, the way there, and a map if it is wanted."""

from dataclasses import replace
from typing import Any

import torch

from debiased_contrastive.evaluation.few_shot import few_shot
from debiased_contrastive.evaluation.geometry import effective_prior, knn_accuracy
from debiased_contrastive.evaluation.linear import linear_probe
from debiased_contrastive.files import read_json
from debiased_contrastive.images.augment import make_views
from debiased_contrastive.images.cmc import CMC
from debiased_contrastive.images.evaluate import compute_features, evaluate
from debiased_contrastive.images.frozen import load_encoder
from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR
from debiased_contrastive.images.sources import read_probe_images
from debiased_contrastive.numerics import make_generator
from debiased_contrastive.reproduce.results import read_measures
from debiased_contrastive.runs import TSNE, Run
from debiased_contrastive.training.checkpoint import latest_checkpoint

ANCHORS = 2000
"""Number of training images whose effective prior is measured."""


def measure_run(settings: Any, run: Run, images: Any, *, draw_map: bool = False) -> dict[str, Any]:
    """The evaluation, the effective prior, and the accuracy of neighbours on the way."""
    evaluate(run, draw_map=draw_map)
    found = {
        "measures": {**read_measures(run), "tau_effective": measure_prior(settings, run, images)},
        "knn": {str(line["step"]): line["knn"] for line in run.metrics() if "knn" in line},
    }
    return {**found, "map": read_json(run.folder / TSNE)} if draw_map else found


def measure_probes(run: Run) -> dict[str, Any]:
    """The evaluation alone, of a run whose checkpoints may hold another module than SimCLR."""
    evaluate(run, draw_map=False)
    return {"measures": read_measures(run)}


def measure_head_and_tail(settings: Any, run: Run, head: int) -> dict[str, Any]:
    """The evaluation, and accuracies on test images of the first `head` classes and of the others apart.

    The features are those of the long tail, the probes learn from as many images of each class as the largest has.
    Otherwise they would call nearly every image of a rare class by the name of a frequent one.
    """
    found = measure_probes(run)
    encoder = load_encoder(run.folder).network
    train, test = read_probe_images(replace(settings.data, per_class=max(settings.data.per_class)))
    x, y = (compute_features(encoder, part, settings.views, torch.device("cpu")) for part in (train, test))
    assert train.labels is not None
    assert test.labels is not None
    for name, chosen in (("head", test.labels < head), ("tail", test.labels >= head)):
        labelled = (x, train.labels, y[chosen], test.labels[chosen])
        found["measures"] |= {
            f"linear_{name}": linear_probe(*labelled).top1,
            f"knn_{name}": knn_accuracy(*labelled),
            f"few_shot_10_{name}": few_shot(*labelled, shots=(10,))[10].accuracy,
        }
    return found


def measure_prior(settings: Any, run: Run, images: Any) -> float:
    """The effective prior of what the loss saw: two views of training images, through the projector."""
    method = load_method(settings, run)
    generator = make_generator(settings.seed, "effective prior")
    chosen = torch.randperm(len(images), generator=generator)[:ANCHORS]
    with torch.no_grad():
        views = make_views(settings.views, images.batch(chosen), 2, generator)
        z0, z1 = (method.projector(method.encoder(view)) for view in views)
    return effective_prior(z0, z1, images.labels[chosen], settings.objective.temperature)


def load_method(settings: Any, run: Run) -> SimCLR | QueueSimCLR:
    """The encoder of a run with its projector, which only checkpoints hold, in evaluation mode."""
    state, _ = latest_checkpoint(run.folder)
    method = make_method(settings, gather=False)
    if state is None or isinstance(method, CMC):
        raise ValueError(
            f"{run.folder} must hold a checkpoint of SimCLR, for its projector: train such a run first"
        )
    method.load_state_dict(state["module"])
    return method.eval()
