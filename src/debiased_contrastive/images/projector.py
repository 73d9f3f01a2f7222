"""The head between encoder and loss, as in the paper's image experiments."""

from torch import nn

from debiased_contrastive.images.sizes import check_sizes


def projector(in_dim: int, hidden_dim: int = 512, out_dim: int = 128) -> nn.Sequential:
    """Linear without bias, batch norm, ReLU, Linear: (b, in_dim) features to (b, out_dim) embeddings.

    2048-512-128 after a ResNet-50, as in the released code. The losses normalise; the head does not. It
    is dropped after training: probes read the encoder's features.

    >>> import torch
    >>> projector(2048)(torch.zeros(4, 2048)).shape
    torch.Size([4, 128])
    """
    check_sizes(in_dim=in_dim, hidden_dim=hidden_dim, out_dim=out_dim)
    return nn.Sequential(
        nn.Linear(in_dim, hidden_dim, bias=False),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(inplace=True),
        nn.Linear(hidden_dim, out_dim),
    )
