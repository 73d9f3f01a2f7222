"""The frozen encoder of any finished run."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from debiased_contrastive.domain import find_domain
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.runs import existing_run

if TYPE_CHECKING:
    from torch import nn


def load_encoder(folder: "str | os.PathLike[str]") -> "nn.Module":
    """Load the encoder of a finished run, in evaluation mode and without gradients.

    That of images takes pixels (n, c, h, w) as uint8, of any height and width: it scales and normalises them as
    training did. Its `network` is the bare encoder, `settings` those of the run. That of sentences has `encode`,
    which takes a list of strings, and its `tokenizer`; called, it takes ids (n, l) and lengths (n,). Both have
    `feature_dim`.

    Args:
        folder: The run directory.

    Returns:
        A module from n images or sentences to features (n, feature_dim).

    Raises:
        FileNotFoundError: The folder holds no run, or one that is not trained to its end.
        ValueError: The run is of neither images nor text, or its files are damaged.
    """
    run = existing_run(Path(folder))
    load = find_domain(DOMAINS, run.domain).load().load_encoder
    if load is None:
        raise ValueError(f"{folder} is a run on {run.domain}: there are encoders of images and text alone")
    encoder: nn.Module = load(run.folder)
    return encoder
