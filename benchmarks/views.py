"""Views per second of batches in memory: ours beside kornia and torchvision, the same recipe for all."""

import importlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from benchmarks.contenders import OURS, Step, load_torchvision
from benchmarks.measure import THREADS, times
from benchmarks.results import environment, parser, publish, whole_number
from benchmarks.targets import Target, judged, speed_up
from debiased_contrastive.images.augment import make_views
from debiased_contrastive.images.views import Views

COUNT = 2
SIDE = 32
RECIPE = Views(size=SIDE)

MakeViews: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Contender:
    """build: what makes (COUNT, b, 3, SIDE, SIDE) normalised views of (b, 3, SIDE, SIDE) uint8 images."""

    title: str
    build: Callable[[], MakeViews]


def _ours() -> MakeViews:
    generator = torch.Generator().manual_seed(0)
    return lambda pixels: make_views(RECIPE, pixels, COUNT, generator)


def _kornia(cropping_mode: str) -> MakeViews:
    """All views in one call and no matrices, which is faster; corners not aligned, as the others have them."""
    # Not an import statement: mypy would read the whole library where it is installed and miss it elsewhere.
    kornia = importlib.import_module("kornia.augmentation")
    crop = {"scale": RECIPE.scale, "ratio": RECIPE.ratio, "align_corners": False, "cropping_mode": cropping_mode}
    kernel = (RECIPE.blur_kernel, RECIPE.blur_kernel)
    sequence = kornia.AugmentationSequential(
        kornia.RandomResizedCrop((SIDE, SIDE), **crop),
        kornia.RandomHorizontalFlip(p=RECIPE.flip),
        kornia.ColorJitter(*RECIPE.jitter, p=RECIPE.jitter_probability),
        kornia.RandomGrayscale(p=RECIPE.grayscale_probability),
        kornia.RandomGaussianBlur(kernel, RECIPE.blur_sigma, p=RECIPE.blur_probability),
        kornia.Normalize(torch.tensor(RECIPE.mean), torch.tensor(RECIPE.std)),
        data_keys=["input"],
        same_on_batch=False,
        transformation_matrix_mode="skip",
    )

    def views(pixels: Tensor) -> Tensor:
        made: Tensor = sequence((pixels.float() / 255).repeat(COUNT, 1, 1, 1))
        return made.view(COUNT, *pixels.shape)

    return views


def _torchvision() -> MakeViews:
    """Its transforms draw once for all that they are given, so they are given one image at a time."""
    load_torchvision()
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.RandomResizedCrop(SIDE, RECIPE.scale, RECIPE.ratio),
            v2.RandomHorizontalFlip(RECIPE.flip),
            v2.RandomApply([v2.ColorJitter(*RECIPE.jitter)], RECIPE.jitter_probability),
            v2.RandomGrayscale(RECIPE.grayscale_probability),
            v2.RandomApply([v2.GaussianBlur(RECIPE.blur_kernel, RECIPE.blur_sigma)], RECIPE.blur_probability),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(RECIPE.mean, RECIPE.std),
        ]
    )

    def views(pixels: Tensor) -> Tensor:
        made = torch.stack([transform(image) for _ in range(COUNT) for image in pixels])
        return made.view(COUNT, *pixels.shape)

    return views


CONTENDERS = {
    OURS: Contender("this library", _ours),
    "kornia-slice": Contender("kornia, crops sliced", lambda: _kornia("slice")),
    "kornia-resample": Contender("kornia, crops resampled", lambda: _kornia("resample")),
    "torchvision": Contender("torchvision v2, image by image", _torchvision),
}
KORNIA = ("kornia-slice", "kornia-resample")
TARGETS = (Target("views/s / kornia", "seconds", KORNIA, 3.0, (("batch", 256),), compared=speed_up, at_least=True),)


def pixels_of(count: int) -> Tensor:
    shape = (count, 3, SIDE, SIDE)
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def measured(batch: int, rounds: int) -> list[dict[str, Any]]:
    pixels = pixels_of(batch)
    steps = {name: _step(contender.build(), pixels) for name, contender in CONTENDERS.items()}
    found = times(steps, rounds)
    return [
        {"contender": name, "batch": batch, "views_per_second": COUNT * batch / row["seconds"], **row}
        for name, row in found.items()
    ]


def _step(views: MakeViews, pixels: Tensor) -> Step:
    def step() -> None:
        with torch.no_grad():
            views(pixels)

    return step


def main() -> None:
    line = parser("benchmarks.views", __doc__, "results/views.json")
    line.add_argument("--batch", type=whole_number(1), default=256)
    line.add_argument("--rounds", type=whole_number(1), default=30)
    arguments = line.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    machine = environment("torch", "kornia", "torchvision", threads=THREADS)
    rows = measured(arguments.batch, arguments.rounds)
    settings = {
        "benchmark": "views",
        "contenders": {name: contender.title for name, contender in CONTENDERS.items()},
        "batch": arguments.batch,
        "views": COUNT,
        "size": SIDE,
        "recipe": asdict(RECIPE),
    }
    results = {"environment": machine, "settings": settings, "rows": rows, "targets": judged(rows, TARGETS)}
    publish(arguments.out, results)


if __name__ == "__main__":
    main()
