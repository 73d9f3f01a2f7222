"""Trainings that the package has no settings for."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from debiased_contrastive.images.images import Images
from debiased_contrastive.reproduce import controls, imbalance
from debiased_contrastive.reproduce.item import Request
from debiased_contrastive.runs import Run


def test_what_a_control_reads_is_on_the_device_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else none of them could be trained on a GPU."""
    seen: dict[str, Any] = {}

    def inputs(*_given: Any, **_named: Any) -> Iterator[dict[str, Any]]:
        yield {"views": None}

    monkeypatch.setattr(controls, "GradientLearner", lambda *_given, **named: seen.update(named))
    monkeypatch.setattr(controls, "make_inputs", inputs)
    monkeypatch.setattr(controls, "fit", lambda *_given: iter(()))
    monkeypatch.setattr(controls, "save_encoder", lambda *_given: None)
    settings = next(iter(imbalance.make_jobs(Request("smoke", 1)))).settings
    images = Images(torch.zeros(80, 1, 28, 28, dtype=torch.uint8), torch.arange(80) % 5, tuple("abcde"))
    fabric: Any = SimpleNamespace(device=torch.device("meta"), world_size=1, global_rank=0)
    list(controls.train_with_priors(settings, Run(tmp_path), fabric, images))
    (given,) = seen["inputs"](range(1))
    assert {given[name].device.type for name in ("targets", "ids")} == {"meta"}
