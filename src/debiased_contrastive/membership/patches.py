"""A guide that needs neither labels nor a download: k-means of image patches (Coates, Lee and Ng 2011)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from debiased_contrastive.membership.kmeans import centroids
from debiased_contrastive.numerics import make_generator

WIDTH = 6
"""Pixels of a side of a patch."""
LARGEST_SIDE = 32
"""Larger images are shrunk to it: the cost grows with the pixels."""
FITTED_PATCHES = 50_000
LLOYD_STEPS = 20
CONTRAST = 10.0
"""Added to the variance of a patch, of values 0 to 255, so that flat ones are not blown up to noise."""
WHITENING = 0.1
"""Added to the eigenvalues of the patches, for the same reason."""
TILE = 16
"""Images at once, so that their codes stay in the cache."""
NO_VARIANCE = 1e-6
"""Share of the largest variance below which a component is left out: it would be rounding, whitened."""


class Dictionary(NamedTuple):
    """(p,) mean of the patches, (p, p) whitening, and (k, p) centres of white patches."""

    mean: Tensor
    whitening: Tensor
    centres: Tensor


@torch.no_grad()
def patch_features(images: Tensor, *, centres: int = 200, width: int = 128, seed: int = 0) -> Tensor:
    """(n, width) float32 features of images: which typical patches lie in which quarter of the image.

    Patches of 6 x 6 pixels are normalised, whitened and clustered. At every place of an image, a centre gets how
    much nearer it is than the average centre, or 0. The roots of the sums over quarters are reduced to principal
    components of variance 1. They serve as a guide: `from_guide(patch_features(images))`.

    Args:
        images: (n, c, h, w) uint8, sides of at least 8 pixels.
        centres: Number of clusters of patches.
        width: Number of features; fewer where the images have not so many directions.
        seed: Seed of patches and clusters.
    """
    if images.dim() != 4 or images.dtype != torch.uint8 or len(images) < 2 or min(images.shape[2:]) < WIDTH + 2:
        raise ValueError(
            f"images must be uint8 with shape (n, c, h, w), n at least 2, h and w at least {WIDTH + 2}; got "
            f"{images.dtype} {tuple(images.shape)}"
        )
    if min(centres, width) < 1:
        raise ValueError(f"centres and width must be at least 1; got {centres} and {width}: the defaults serve")
    images = _shrunk(images.detach().cpu())
    dictionary = _learn(images, centres, seed)
    codes = torch.cat([encode(part, dictionary) for part in images.split(TILE)])
    return _principal_components(codes.sqrt_(), width)


def _shrunk(images: Tensor) -> Tensor:
    sides = [min(side, LARGEST_SIDE) for side in images.shape[2:]]
    if sides == list(images.shape[2:]):
        return images
    return torch.cat(
        [F.interpolate(part.float(), sides, mode="area").round_().byte() for part in images.split(TILE)]
    )


def _learn(images: Tensor, centres: int, seed: int) -> Dictionary:
    """Whitening and clusters of patches from random places of random images."""
    generator = make_generator(seed, "patches")
    windows = images.unfold(2, WIDTH, 1).unfold(3, WIDTH, 1)
    image, row, column = (
        torch.randint(windows.shape[axis], (FITTED_PATCHES,), generator=generator) for axis in (0, 2, 3)
    )
    patches = windows[image, :, row, column].flatten(1).float()
    variance, mean = torch.var_mean(patches, 1, keepdim=True, correction=0)
    patches = (patches - mean) / (variance + CONTRAST).sqrt()
    values, vectors = torch.linalg.eigh(patches.T.cov().double())
    whitening = (vectors @ (values.clamp_min(0) + WHITENING).rsqrt().diag() @ vectors.T).float()
    mean = patches.mean(0)
    white = (patches - mean) @ whitening
    return Dictionary(mean, whitening, centroids(white, centres, steps=LLOYD_STEPS, generator=generator))


def encode(images: Tensor, dictionary: Dictionary) -> Tensor:
    """(n, 4 k) sums over the quarters of images of how much nearer a centre is than the average centre."""
    mean, whitening, centres = dictionary
    pixels = images.float().sub_(128)
    # White patches w and their products with the centres are linear in a patch x once its mean m and spread s are
    # known: W ((x - m) / s - mean). So convolutions make both, without a copy of every patch.
    local = F.avg_pool2d(pixels.mean(1, keepdim=True), WIDTH, 1)
    squares = F.avg_pool2d(pixels.square().mean(1, keepdim=True), WIDTH, 1)
    spread = ((squares - local.square()).clamp_min_(0) + CONTRAST).sqrt_()
    maps = torch.cat([whitening, centres @ whitening])
    filters = (maps - maps.mean(1, keepdim=True)).view(len(maps), -1, WIDTH, WIDTH)
    answers = F.conv2d(pixels, filters).div_(spread).sub_((maps @ mean).view(-1, 1, 1))
    white, products = answers.split([len(whitening), len(centres)], 1)
    distances = products.mul(-2).add_(centres.square().sum(1).view(-1, 1, 1))
    distances = distances.add_(white.square().sum(1, keepdim=True)).clamp_min_(0).sqrt_()
    nearer = (distances.mean(1, keepdim=True) - distances).clamp_min_(0)
    half, wide = (side // 2 for side in nearer.shape[2:])
    quarters = [part.sum((2, 3)) for side in (nearer[:, :, :half], nearer[:, :, half:])
                for part in (side[..., :wide], side[..., wide:])]  # fmt: skip
    return torch.cat(quarters, 1)


def _principal_components(codes: Tensor, width: int) -> Tensor:
    codes = codes - codes.mean(0)
    values, vectors = torch.linalg.eigh((codes.T @ codes / len(codes)).double())
    values, vectors = values[-width:].flip(0), vectors[:, -width:].flip(1)
    there = values > NO_VARIANCE * max(float(values[0]), NO_VARIANCE)
    if not bool(there.any()):
        return codes.new_zeros(len(codes), 1)
    components: Tensor = codes @ (vectors[:, there] * values[there].rsqrt()).float()
    return components
