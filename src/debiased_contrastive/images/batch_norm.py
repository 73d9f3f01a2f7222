"""Batch norm over the batch of all processes, also where torch's own does not run: on CPUs."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def synchronise_batch_norm(module: nn.Module, device: torch.device) -> nn.Module:
    """Replace every batch norm of a module by one that sees all processes; names and state stay.

    Several processes then compute what one process would with the whole batch. On GPUs it is torch's.

    Returns:
        The module itself, or its replacement where it is a batch norm.
    """
    for part in module.modules():
        if isinstance(part, _BatchNorm) and type(part) not in _PLAIN:
            raise ValueError(
                f"several processes share plain batch norm; this encoder has {type(part).__name__}, which "
                "does more: train it in one process, or choose another encoder"
            )
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return converted
    if isinstance(module, _BatchNorm):
        return _to_global(module)
    made: dict[nn.Module, nn.Module] = {}
    # Not named_children, which passes over a module that stands under a second name.
    for name, child in module._modules.items():
        if child is not None:
            made[child] = made.get(child) or synchronise_batch_norm(child, device)
            module._modules[name] = made[child]
    return module


def _to_global(norm: _BatchNorm) -> "GlobalBatchNorm":
    # With the very tensors of the local one, so that optimisers keep what they hold.
    result = GlobalBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    result._parameters, result._buffers = norm._parameters, norm._buffers
    return result.train(norm.training)


class GlobalBatchNorm(_BatchNorm):
    """Batch norm whose statistics, and their gradients, are sums over all processes."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"batch norm needs (b, channels, ...); got {tuple(input.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (b, channels, ...) by the mean and variance of every process's samples."""
        if not self.training or not dist.is_initialized() or dist.get_world_size() == 1:
            return super().forward(x)
        dims, shape = [0, *range(2, x.dim())], [1, -1] + [1] * (x.dim() - 2)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        count = wide.new_full((1,), x.numel() / x.shape[1])
        sums = _all_sum(torch.cat([wide.sum(dims), count]))
        mean, total = sums[:-1] / sums[-1], sums[-1].detach()
        # Two passes, as the local one: a difference of large squares would lose digits.
        centred = wide - mean.view(shape)
        variance = _all_sum(centred.square().sum(dims)) / total
        self._update_running_statistics(mean.detach(), variance.detach() * total / (total - 1))
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)

    def _update_running_statistics(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        momentum = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), momentum)
        self.running_var.lerp_(variance.to(self.running_var), momentum)


def _all_sum(values: Tensor) -> Tensor:
    result: Tensor = _AllSum.apply(values)  # type: ignore[no-untyped-call]
    return result


class _AllSum(torch.autograd.Function):
    """The sum over processes; each one's loss depends on it, so gradients are summed alike."""

    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        return total
