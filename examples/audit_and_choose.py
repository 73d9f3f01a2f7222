"""Tutorial: audit embeddings of 2,000 images, and choose what to tell the loss."""

import torch

import debiased_contrastive as dc
from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.membership.patches import patch_features


def main() -> None:
    torch.manual_seed(0)
    images = read_fashion_mnist("train")
    assert images.labels is not None
    embeddings = patch_features(images.pixels, centres=64, width=32)  # put your own encoder's here
    labels = torch.where(torch.arange(len(images.labels)) < 500, images.labels, -1)  # 500 labels; -1 is unknown
    wrong = torch.rand(len(images.labels)) < 0.3
    groups = torch.where(wrong, torch.randint(10, images.labels.shape), images.labels)  # 73 % right

    found = dc.audit(embeddings, labels=labels, temperature=0.2, batch_size=511, groups=groups)

    print(f"share of false negatives {found.prior.value:.2f}: {found.false_negatives[0]:.0f} for each anchor")
    print(f"largest safe tau_plus {found.tau_safe:.2f}; at the true share {found.floored_at_prior:.0%} are floored")
    for source in found.sources:
        share = "-" if source.share is None else f"{source.share:+.1f}"
        print(f"force share {share}: {source.name}")
    print(found.advice)


if __name__ == "__main__":
    main()
