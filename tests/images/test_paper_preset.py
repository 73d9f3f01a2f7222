"""The paper's CIFAR10 experiment is real: its network and one step of its optimiser, on a part of its batch."""

import math

import pytest
import torch
from lightning_fabric import Fabric

from debiased_contrastive.images.augment import make_views
from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.presets import SIMCLR_PRESETS
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.training.gradient import gradient_steps

BATCH = 24
"""The 256 of the paper take 13 GiB and minutes."""


def test_the_papers_cifar10_preset_takes_a_step() -> None:
    settings = SIMCLR_PRESETS["cifar10"].settings
    training = settings.training
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, generator=generator)
    views = make_views(settings.views, pixels, settings.objective.num_positives + 1, generator)
    assert training.batch == 256
    assert views.shape == (2, BATCH, 3, 32, 32)
    torch.manual_seed(0)
    method = make_method(settings, gather=False)
    assert isinstance(method, SimCLR)
    # A ResNet-50 without its classifier, whose stem is 3 x 3 instead of 7 x 7; and 2048-512-128.
    assert sum(value.numel() for value in method.encoder.parameters()) == 23_508_032 - 64 * 3 * (49 - 9)
    assert sum(value.numel() for value in method.projector.parameters()) == 2048 * 512 + 2 * 512 + 512 * 128 + 128
    optimiser = torch.optim.Adam(method.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    fabric = Fabric(accelerator="cpu", devices=1)
    module, wrapped = fabric.setup(method, optimiser)
    before = {name: value.detach().clone() for name, value in method.named_parameters()}
    ((done, loss),) = gradient_steps(fabric, module, wrapped, [{"views": views}], rate=lambda _: 1e-3, seed=0)
    assert done == 1
    # Untrained, a view is hardly nearer to its partner than to the others: log(1 + N).
    assert float(loss) == pytest.approx(math.log(1 + 2 * (BATCH - 1)), abs=0.3)
    assert method.loss.diagnostics.num_unlabeled == 2 * (BATCH - 1)
    for name, value in method.named_parameters():
        # Adam's first step is the learning rate times the sign of the gradient.
        moved = (value.detach() - before[name]).abs().max().item()
        assert 0.5e-3 < moved < 1.01e-3, name
