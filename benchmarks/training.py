"""Images per second of SimCLR training: our loop beside lightly's recipe, same network, images and optimiser."""

import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.contenders import OURS, TAU_PLUS, TEMPERATURE, Step, load_torchvision
from benchmarks.measure import THREADS, times
from benchmarks.results import environment, parser, publish, whole_number
from benchmarks.targets import Target, judged, speed_up
from benchmarks.views import RECIPE, SIDE, pixels_of
from debiased_contrastive.images.encoders import projector, small_convnet
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.run import make_inputs
from debiased_contrastive.images.settings import ImageTraining, SimCLRSettings
from debiased_contrastive.images.simclr import SimCLR
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from debiased_contrastive.training.gradient import gradient_steps, steps_per_epoch
from debiased_contrastive.training.machine import start_fabric

WORKERS = 2
RATE = 1e-3


@dataclass(frozen=True)
class Contender:
    """prepare: of (n, 3, SIDE, SIDE) uint8 images and the size of a batch, the training of one epoch."""

    title: str
    prepare: Callable[[Tensor, int], Step]


def network() -> tuple[nn.Module, nn.Module]:
    """Encoder and projector, the same weights for all."""
    torch.manual_seed(0)
    return small_convnet(), projector(256, 256, 128)


def _ours(pixels: Tensor, batch: int) -> Step:
    """The loop that `debiased train` runs, without its log and checkpoints, of which the recipe has none."""
    method = SimCLR(*network(), DebiasedNTXentLoss(temperature=TEMPERATURE, tau_plus=TAU_PLUS))
    settings = SimCLRSettings(views=RECIPE, training=ImageTraining(batch=batch, accelerator="cpu"))
    fabric = start_fabric(settings.training.accelerator, settings.training.precision)
    module, optimiser = fabric.setup(method, torch.optim.Adam(method.parameters(), lr=RATE))
    given = make_inputs(settings, Images(pixels, None, ()), fabric, range(sys.maxsize))
    loop = gradient_steps(fabric, module, optimiser, given, rate=lambda _: RATE, seed=settings.seed)

    def epoch() -> None:
        for _ in islice(loop, steps_per_epoch(len(pixels), batch)):
            pass

    return epoch


def _lightly(pixels: Tensor, batch: int, threads: int) -> Step:
    """Its SimCLR example: one pass for each view, images transformed by workers that outlive an epoch."""
    load_torchvision()
    from lightly.loss import NTXentLoss

    loader = DataLoader(
        Pictures(pixels, _lightly_transform()),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=WORKERS,
        persistent_workers=True,
    )
    model = nn.Sequential(*network())
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    criterion = NTXentLoss(temperature=TEMPERATURE)

    def epoch() -> None:
        with _threads(threads):
            for view0, view1 in loader:
                loss = criterion(model(view0), model(view1))
                loss.backward()
                optimiser.step()
                optimiser.zero_grad()

    return epoch


def _lightly_transform() -> Callable[[Image.Image], list[Tensor]]:
    """The recipe of all, but for the blur: Pillow's, which has no set number of taps."""
    # Not an import statement: the types are there only where the library is, and do not name what it exports.
    lightly = importlib.import_module("lightly.transforms")
    brightness, contrast, saturation, hue = RECIPE.jitter
    transform: Callable[[Image.Image], list[Tensor]] = lightly.SimCLRTransform(
        input_size=SIDE,
        cj_prob=RECIPE.jitter_probability,
        cj_bright=brightness,
        cj_contrast=contrast,
        cj_sat=saturation,
        cj_hue=hue,
        min_scale=RECIPE.scale[0],
        random_gray_scale=RECIPE.grayscale_probability,
        gaussian_blur=RECIPE.blur_probability,
        sigmas=RECIPE.blur_sigma,
        hf_prob=RECIPE.flip,
        normalize={"mean": list(RECIPE.mean), "std": list(RECIPE.std)},
    )
    return transform


class Pictures(Dataset[list[Tensor]]):
    """As torchvision's CIFAR10: an array in memory, each image a Pillow one when it is asked for."""

    def __init__(self, pixels: Tensor, transform: Callable[[Image.Image], list[Tensor]]) -> None:
        self.array = pixels.permute(0, 2, 3, 1).contiguous().numpy()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> list[Tensor]:
        return self.transform(Image.fromarray(self.array[index]))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Two workers and two threads share two cores, where fewer threads can be faster: lightly has the choice.
CONTENDERS = {
    OURS: Contender("this library", _ours),
    "lightly": Contender(
        f"lightly, {WORKERS} workers, {THREADS} threads", lambda pixels, batch: _lightly(pixels, batch, THREADS)
    ),
    "lightly-one-thread": Contender(
        f"lightly, {WORKERS} workers, 1 thread", lambda pixels, batch: _lightly(pixels, batch, 1)
    ),
}
LIGHTLY = ("lightly", "lightly-one-thread")
SIZE = (("images", 5000), ("batch", 256))
TARGETS = (Target("images/s / lightly", "seconds", LIGHTLY, 1.5, SIZE, compared=speed_up, at_least=True),)


def measured(images: int, batch: int, rounds: int) -> list[dict[str, Any]]:
    """Whole epochs in turns, after one of each; workers wait, without work, while it is another one's turn."""
    pixels = pixels_of(images)
    epochs = {name: contender.prepare(pixels, batch) for name, contender in CONTENDERS.items()}
    found = times(epochs, rounds, slow_seconds=math.inf)
    seen = batch * steps_per_epoch(images, batch)
    return [
        {"contender": name, "images": images, "batch": batch, "images_per_second": seen / row["seconds"], **row}
        for name, row in found.items()
    ]


def main() -> None:
    line = parser("benchmarks.training", __doc__, "results/training.json")
    line.add_argument("--images", type=whole_number(2), default=5000)
    line.add_argument("--batch", type=whole_number(2), default=256)
    line.add_argument("--rounds", type=whole_number(1), default=5)
    arguments = line.parse_args()
    if arguments.batch > arguments.images:
        line.error(f"a batch must have at most the {arguments.images} images, got {arguments.batch}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    machine = environment("torch", "lightly", "torchvision", "pillow", threads=THREADS)
    rows = measured(arguments.images, arguments.batch, arguments.rounds)
    settings = {
        "benchmark": "training",
        "contenders": {name: contender.title for name, contender in CONTENDERS.items()},
        "images": arguments.images,
        "batch": arguments.batch,
        "size": SIDE,
        "learning_rate": RATE,
        "temperature": TEMPERATURE,
    }
    results = {"environment": machine, "settings": settings, "rows": rows, "targets": judged(rows, TARGETS)}
    publish(arguments.out, results)


if __name__ == "__main__":
    main()
