"""A tiny CLIP on images whose captions coincide: with CLIP's loss, the debiased one, and known captions.

An image shows one of four shapes in one of six colours, in noise; its caption names both. So one in 24
random captions fits an image as well as its own: a false negative. Four trainings start equal and see the same
batches: with open_clip's loss; with the debiased one; with the debiased one that is told which captions are equal
(`ids`); and with the one that is told only the colours, so that four captions are equally likely (`membership`).
New images are then looked up among all captions, and captions among the images. Prints a table; nothing is written.

Needs the extra open-clip.
"""

import argparse

import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from torch import Tensor, nn

from debiased_contrastive.integrations.open_clip import DebiasedClipLoss

COLOURS = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]).float()
SHAPES, SIDE, NOISE = 4, 16, 0.7
CAPTIONS = len(COLOURS) * SHAPES
BEGIN, END = CAPTIONS, CAPTIONS + 1
"""Numbers of the tokens around the words; the last is the largest, where CLIP reads the sentence."""


def draw_images(captions: Tensor, generator: torch.Generator) -> Tensor:
    """(b, 3, SIDE, SIDE): a square, a disc, a cross or a frame, in the caption's colour."""
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    middle = SIDE // 2 + 2 * torch.rand(2, len(captions), 1, 1, generator=generator) - 1.5
    y, x = (rows - middle[0]).abs(), (columns - middle[1]).abs()
    largest, smallest = torch.maximum(x, y), torch.minimum(x, y)
    shapes = torch.stack(
        [largest < 4, x**2 + y**2 < 40, (smallest < 1.5) & (largest < 7), (largest < 7) & (largest > 5)]
    )
    drawn = shapes[captions % SHAPES, torch.arange(len(captions))].unsqueeze(1)
    images = drawn * COLOURS[captions // SHAPES, :, None, None]
    return images + NOISE * torch.randn(images.shape, generator=generator)


def tokens(captions: Tensor) -> Tensor:
    """(b, 4): begin, colour, shape, end."""
    words = [captions // SHAPES, len(COLOURS) + captions % SHAPES]
    return torch.stack([torch.full_like(captions, BEGIN), *words, torch.full_like(captions, END)], 1)


def make_model() -> nn.Module:
    vision = CLIPVisionCfg(layers=1, width=48, head_width=16, patch_size=4, image_size=SIDE)
    text = CLIPTextCfg(context_length=4, vocab_size=END + 1, width=48, heads=3, layers=1)
    model: nn.Module = CLIP(24, vision, text, output_dict=True)
    return model


def told(objective: str, captions: Tensor) -> dict[str, Tensor]:
    """What the loss of that name knows beside the features."""
    if objective == "known captions":
        return {"ids": captions}
    if objective == "known colours":
        is_possible = (captions // SHAPES).unsqueeze(1) == torch.arange(CAPTIONS) // SHAPES
        return {"membership": is_possible / SHAPES}
    return {}


@torch.no_grad()
def retrieval(model: nn.Module) -> tuple[float, float]:
    """Per cent of 480 new images whose caption comes first, and of each caption's first ten images that fit."""
    captions = torch.arange(480) % CAPTIONS
    images = draw_images(captions, torch.Generator().manual_seed(12345))
    found = model(images, tokens(torch.arange(CAPTIONS)))
    similarity = found["image_features"] @ found["text_features"].T
    of_images = similarity.argmax(1) == captions
    of_captions = captions[similarity.topk(10, 0).indices] == torch.arange(CAPTIONS)
    return tuple(100 * each.double().mean().item() for each in (of_images, of_captions))  # type: ignore[return-value]


def run(objective: str, steps: int, batch: int, seed: int) -> tuple[float, float, float]:
    """Train one model; its two retrieval figures, and the scale that it learnt."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    loss = ClipLoss() if objective == "CLIP" else DebiasedClipLoss(tau_plus=1 / CAPTIONS)
    for _ in range(steps):
        captions = torch.randint(CAPTIONS, (batch,), generator=generator)
        value = loss(**model(draw_images(captions, generator), tokens(captions)), **told(objective, captions))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    model.eval()
    return *retrieval(model), model.get_parameter("logit_scale").exp().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.seeds) < 1 or arguments.batch < 32:
        parser.error("steps and seeds must be at least 1, batch at least 32, so that it holds different captions")
    torch.set_num_threads(1)  # a model this small is faster on one
    print(f"{arguments.batch - 1} unlabeled captions per image, one in {CAPTIONS} of them a false negative")
    print(f"{'objective':<16} image to caption, %   caption to image, %   learnt scale")
    for objective in ("CLIP", "debiased", "known captions", "known colours"):
        runs = [run(objective, arguments.steps, arguments.batch, seed) for seed in range(arguments.seeds)]
        to_caption, to_image, scale = torch.tensor(runs).mean(0).tolist()
        print(f"{objective:<16} {to_caption:>19.1f}   {to_image:>19.1f}   {scale:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
