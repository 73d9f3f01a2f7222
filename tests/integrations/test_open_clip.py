"""DebiasedClipLoss where open_clip expects its ClipLoss."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import debiased_contrastive as dc

pytest.importorskip("open_clip", reason="needs the extra open-clip")

from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from open_clip_train.train import train_one_epoch

from debiased_contrastive.integrations.open_clip import DebiasedClipLoss


def features(b: int = 7, *, unit: bool = True) -> list[Tensor]:
    generator = torch.Generator().manual_seed(b)
    shared = torch.randn(b, 5, generator=generator, dtype=torch.float64)
    both = [shared + torch.randn(b, 5, generator=generator, dtype=torch.float64) for _ in range(2)]
    return [(nn.functional.normalize(z, dim=1) if unit else z).requires_grad_() for z in both]


def value_and_gradients(loss: nn.Module, inputs: list[Tensor], **known: Tensor) -> tuple[Tensor, ...]:
    value = loss(*inputs, **known)
    return value.detach(), *torch.autograd.grad(value, inputs)


@pytest.mark.parametrize("scale", [1.0, 14.3, 100.0])
@pytest.mark.parametrize("unit", [True, False])
def test_without_correction_it_is_its_peer(scale: float, unit: bool) -> None:
    inputs = [*features(unit=unit), torch.tensor(scale, dtype=torch.float64, requires_grad=True)]
    ours = value_and_gradients(DebiasedClipLoss(tau_plus=0.0), inputs)
    for mine, theirs in zip(ours, value_and_gradients(ClipLoss(), inputs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_with_correction_it_is_the_loss_of_logits() -> None:
    image, text = features()
    s = 10 * image @ text.T
    own = torch.eye(len(s), dtype=torch.bool)
    wanted = torch.cat(
        [
            dc.contrastive_loss(
                each.diagonal(),
                each.masked_fill(own, -math.inf),
                tau_plus=0.05,
                on_floor="cap_tau",
                beta=0.5,
                reduction="none",
            )
            for each in (s, s.T)
        ]
    )
    loss = DebiasedClipLoss(0.05, beta=0.5)
    torch.testing.assert_close(loss(image, text, 10.0), wanted.mean(), rtol=1e-12, atol=1e-12)
    assert loss.diagnostics.num_unlabeled == 6


def test_a_bias_changes_nothing_and_stays_in_the_graph() -> None:
    inputs = [*features(), torch.tensor(10.0), torch.tensor(-10.0, dtype=torch.float64, requires_grad=True)]
    loss = DebiasedClipLoss()
    value = loss(*inputs, output_dict=True)["contrastive_loss"]
    assert value == loss(*inputs[:3])
    assert torch.autograd.grad(value, inputs[3])[0] == 0


def test_repeated_captions_are_no_negatives() -> None:
    image, text = features(4)
    alone = DebiasedClipLoss(0.0)(image[:3], text[:3], 10.0)
    loss = DebiasedClipLoss(0.0)
    ids = torch.tensor([0, 1, 2, 2])
    losses = loss(image, text, 10.0, ids=ids)
    assert loss.diagnostics.num_unlabeled == 2.5
    assert not torch.allclose(alone, losses)


def test_half_precision_is_computed_in_float32() -> None:
    inputs = [z.detach().bfloat16().requires_grad_() for z in (*features(), torch.tensor(14.3))]
    with torch.autocast("cpu", torch.bfloat16):
        found = value_and_gradients(DebiasedClipLoss(), inputs)
    wanted = DebiasedClipLoss()(*(z.float() for z in inputs))
    torch.testing.assert_close(found[0], wanted, rtol=1e-6, atol=0)
    assert {gradient.dtype for gradient in found[1:]} == {torch.bfloat16}


def test_a_last_batch_of_one_costs_nothing() -> None:
    inputs = [*features(1), torch.tensor(10.0, dtype=torch.float64, requires_grad=True)]
    with pytest.warns(UserWarning, match="a batch of one"):
        found = value_and_gradients(DebiasedClipLoss(), inputs)
    assert not any(each.any() for each in found)


@dataclass
class Batches:
    """A loader as open_clip_train has it."""

    batches: list[tuple[Tensor, Tensor]]

    def __post_init__(self) -> None:
        self.dataloader = self
        self.num_batches, self.num_samples = len(self.batches), sum(len(images) for images, _ in self.batches)

    def set_epoch(self, epoch: int) -> None: ...

    def __iter__(self) -> Any:
        return iter(self.batches)


def settings(**changes: Any) -> SimpleNamespace:
    """What open_clip_train reads of its command line while it trains."""
    fixed = {"device": "cpu", "distill": False, "skip_scheduler": True, "horovod": False, "grad_clip_norm": None}
    logged = {"rank": 0, "local_rank": 0, "world_size": 1, "log_every_n_steps": 1, "wandb": False, "batch_size": 8}
    return SimpleNamespace(**{**fixed, **logged, "precision": "fp32", "accum_freq": 1, **changes})


def tiny_clip() -> nn.Module:
    torch.manual_seed(0)
    vision = CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=4, image_size=8)
    text = CLIPTextCfg(context_length=6, vocab_size=20, width=32, heads=2, layers=1)
    model: nn.Module = CLIP(16, vision, text, output_dict=True)
    return model


@pytest.mark.parametrize(
    "changes", [{}, {"precision": "amp_bf16"}, {"accum_freq": 2}], ids=["plain", "bf16", "accumulated"]
)
def test_its_trainer_trains_with_it(changes: dict[str, Any]) -> None:
    model, loss = tiny_clip(), DebiasedClipLoss(0.01)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(24, 3, 8, 8, generator=generator)
    texts = torch.randint(1, 19, (24, 6), generator=generator)
    texts[:, -1] = 19
    data = {"train": Batches(list(zip(images.split(8), texts.split(8), strict=True)) * 2)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    values = []
    for epoch in range(4):
        train_one_epoch(model, data, loss, epoch, optimizer, None, None, None, settings(**changes))
        with torch.no_grad():
            values.append(loss(**model(images, texts)).item())
    assert values[-1] < values[0]
    assert loss.diagnostics.num_unlabeled == 23


def test_an_automatic_tau_plus_is_saved() -> None:
    loss, again = DebiasedClipLoss("auto"), DebiasedClipLoss("auto")
    for _ in range(3):
        loss(*features(), 10.0)
    again.load_state_dict(loss.state_dict())
    assert again.get_submodule("loss.tau_plus").calls == 3


def test_it_shows_its_settings_and_refuses_wrong_ones() -> None:
    assert "tau_plus=0.001, on_floor=cap_tau" in repr(DebiasedClipLoss())
    assert isinstance(DebiasedClipLoss(local_loss=False, gather_with_grad=False), ClipLoss)
    with pytest.raises(ValueError, match="--local-loss --gather-with-grad"):
        DebiasedClipLoss(local_loss=False, gather_with_grad=False, world_size=2)
    with pytest.raises(ValueError, match="use_horovod must be False"):
        DebiasedClipLoss(use_horovod=True)
    with pytest.raises(ValueError, match="tau_plus"):
        DebiasedClipLoss(1.0)
