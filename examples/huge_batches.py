"""Tutorial: a batch whose activations do not fit into memory. The gradient is that of the whole batch."""

import torch
from torch import Tensor, nn

import debiased_contrastive as dc


def gradient(encoder: nn.Module) -> Tensor:
    """The gradients of all weights, in one row."""
    return torch.cat([weight.grad.flatten() for weight in encoder.parameters() if weight.grad is not None])


def main() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 32))
    loss = dc.DebiasedNTXentLoss(temperature=0.1, tau_plus=0.001)
    x = torch.randn(4096, 64)
    x0, x1 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)

    # A plain step keeps the activations of all 8,192 inputs until the backward.
    encoder.eval()  # without dropout, so that both ways see the same network
    plain = loss(encoder(x0), encoder(x1))
    plain.backward()
    wanted = gradient(encoder)

    # A cached step keeps those of 256 inputs. It encodes everything twice.
    encoder.zero_grad()
    value = dc.cached_backward(loss, encoder, x0, x1, chunk=256)
    difference = (gradient(encoder) - wanted).norm() / wanted.norm()

    print(f"{2 * (len(x) - 1)} unlabeled samples for each anchor")
    print(f"loss {plain.item():.4f} in one piece, {value.item():.4f} in chunks")
    print("the gradients are the same" if difference < 1e-5 else f"the gradients differ by {difference:.1e}")

    # With dropout each chunk is encoded with the same random numbers both times.
    encoder.train()
    encoder.zero_grad()
    dc.cached_backward(loss, encoder, x0, x1, chunk=256)
    print("dropout is replayed")


if __name__ == "__main__":
    main()
