"""Our NTXentLoss where lightly expects its own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import debiased_contrastive as dc

pytest.importorskip("lightly", reason="needs the extra lightly")

from lightly.loss import NTXentLoss as Peer
from lightly.models.modules import SimCLRProjectionHead

from debiased_contrastive.integrations.lightly import NTXentLoss


def views(b: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(b, 5, generator=generator, dtype=torch.float64)
    z0, z1 = (x + torch.randn(b, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    return z0.requires_grad_(), z1.requires_grad_()


def value_and_gradients(loss: nn.Module, z: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    value = loss(*z)
    return value.detach(), *torch.autograd.grad(value, z)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("size", [0, (0, 5), (16, 5), (4, 5)])
def test_without_correction_it_is_its_peer(size: Any, temperature: float) -> None:
    ours, theirs = NTXentLoss(temperature, size, tau_plus=0.0).double(), Peer(temperature, size).double()
    if ours.state_dict():
        # Banks begin in float32; what is a unit vector there is nearly one in float64.
        ours.memory_bank.bank = nn.functional.normalize(ours.memory_bank.bank, dim=1)
        theirs.memory_bank.bank = ours.memory_bank.bank.clone()
    for step in range(5):
        z = views(seed=step)
        for mine, other in zip(value_and_gradients(ours, z), value_and_gradients(theirs, z), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
    for name, buffer in ours.state_dict().items():
        torch.testing.assert_close(buffer, theirs.get_buffer(name), rtol=1e-12, atol=0)


def test_with_correction_it_is_the_loss_inside() -> None:
    z0, z1 = views()
    without = NTXentLoss(0.3, tau_plus=0.05, on_floor="cap_tau", beta=0.5)
    core = dc.DebiasedNTXentLoss(0.3, 0.05, on_floor="cap_tau", beta=0.5)
    assert without(z0, z1) == core(z0, z1)
    assert without.diagnostics == core.diagnostics
    bank = NTXentLoss(0.3, (16, 5), tau_plus=0.05).double()
    stored = bank.memory_bank.bank.clone()
    assert bank(z0, z1) == dc.DebiasedInfoNCELoss(0.3, 0.05)(z0, z1, negatives=stored)
    assert bank.diagnostics.num_unlabeled == 16


def test_the_bank_changes_in_training_alone_and_is_saved() -> None:
    loss = NTXentLoss(0.5, (16, 5)).double()
    first = loss.memory_bank.bank.clone()
    with torch.no_grad():
        loss(*(z.detach() for z in views()))
    assert torch.equal(loss.memory_bank.bank, first)
    loss(*views())
    assert not torch.equal(loss.memory_bank.bank, first)
    again = NTXentLoss(0.5, (16, 5)).double()
    again.load_state_dict(loss.state_dict())
    assert again(*views(seed=1)) == loss(*views(seed=1))
    assert torch.equal(again.memory_bank.bank, loss.memory_bank.bank)


@pytest.mark.parametrize("size", [0, (16, 5)])
def test_a_learnt_temperature_and_half_precision(size: Any) -> None:
    t = nn.Parameter(torch.tensor(0.5))
    loss = NTXentLoss(t, size, tau_plus=0.05)
    assert dict(loss.named_parameters()) == {"loss.temperature": t}
    start = {name: value.clone() for name, value in loss.state_dict().items()}
    z = [each.detach().bfloat16().requires_grad_() for each in views()]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = loss(*z)
    mixed.backward()
    assert t.grad is not None
    assert t.grad != 0
    loss.load_state_dict(start)
    torch.testing.assert_close(mixed, loss(*(each.float() for each in z)), rtol=1e-6, atol=0)


def test_a_last_batch_of_one_does_not_stop_a_training() -> None:
    with pytest.warns(UserWarning, match="a batch of one"):
        found = value_and_gradients(NTXentLoss(), views(1))
    assert not any(each.any() for each in found)
    assert NTXentLoss(0.5, (16, 5))(*views(1)) > 0


def test_one_batch_that_overflows_does_not_stay_in_the_bank() -> None:
    loss = NTXentLoss(0.5, (16, 5), tau_plus=0.05)
    z0, z1 = (z.float() for z in views(b=4))
    assert loss(z0, z1).isfinite()
    assert loss(z0, z1 * torch.tensor([[1.0], [torch.inf], [1.0], [torch.nan]])).isnan()
    assert loss(z0, z1).isfinite(), "a scaler skipped the step, the training goes on"
    torch.testing.assert_close(loss.memory_bank.bank[4:8].norm(dim=1), torch.tensor([1.0, 0.0, 1.0, 0.0]))


def test_it_shows_its_settings_and_refuses_wrong_ones() -> None:
    assert "temperature=0.5, tau_plus=0.1, on_floor=clamp" in repr(NTXentLoss())
    assert "DebiasedInfoNCELoss" in repr(NTXentLoss(0.1, (8, 5), tau_plus=0.01))
    with pytest.raises(ValueError, match="does not specify the feature dimension"):
        NTXentLoss(memory_bank_size=4096)
    with pytest.raises(ValueError, match="temperature must be positive"):
        NTXentLoss(temperature=0.0)


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")
def test_lightning_trains_with_it_and_resumes(tmp_path: Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning", reason="needs pytorch-lightning")

    class SimCLR(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.backbone = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
            self.head = SimCLRProjectionHead(16, 16, 5)
            self.criterion = NTXentLoss(0.2, (32, 5), gather_distributed=True, tau_plus=dc.AutoTauPlus(0.1, 2))

        def training_step(self, batch: list[Tensor], number: int) -> Tensor:
            noise = torch.randn(2, *batch[0].shape, generator=torch.Generator().manual_seed(number))
            z0, z1 = (self.head(self.backbone(batch[0] + each)) for each in noise)
            loss: Tensor = self.criterion(z0, z1)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    def fit(epochs: int, checkpoint: Path | None = None) -> Any:
        quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            devices=1,
            default_root_dir=tmp_path,
            **dict.fromkeys(quiet, False),
        )
        loader = DataLoader(TensorDataset(torch.randn(40, 10, generator=torch.Generator().manual_seed(1))), 8)
        trainer.fit(SimCLR(), loader, ckpt_path=checkpoint)
        return trainer

    fit(1).save_checkpoint(tmp_path / "half.ckpt")
    resumed, whole = (fit(2, path).model.state_dict() for path in (tmp_path / "half.ckpt", None))
    assert whole["criterion.loss.tau_plus._extra_state"][0] == 10
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name
