"""Settings of trainings on images that have a name: a demonstration, small ones, and the paper's."""

from dataclasses import replace
from typing import Any

from debiased_contrastive.domain import Preset, name_presets
from debiased_contrastive.images.settings import (
    CMCObjective,
    CMCSettings,
    Data,
    Encoder,
    ImageTraining,
    SimCLREncoder,
    SimCLRObjective,
    SimCLRSettings,
)
from debiased_contrastive.images.views import ColourViews, Views

_FASHION_VIEWS = Views(size=28, scale=(0.3, 1.0), blur_probability=0.0, mean=(0.286,), std=(0.353,))
_SMALL = SimCLREncoder(name="small", width=32, hidden_dim=256, out_dim=128)

_CROPS = ColourViews(scale=(0.2, 1.0), jitter_probability=0.0, grayscale_probability=0.0, blur_probability=0.0)

DEMO_SETTINGS = SimCLRSettings(
    preset="demo",
    data=Data("fashion"),
    views=_FASHION_VIEWS,
    encoder=_SMALL,
    training=ImageTraining(epochs=20, batch=256, knn_every=4),
)

SIMCLR_PRESETS: dict[str, Preset[SimCLRSettings]] = name_presets(
    {
        "demo": Preset("the Fashion-MNIST subset inside the package, small encoder", DEMO_SETTINGS),
        "cifar10-small": Preset(
            "five classes of CIFAR10, 1,000 images each, small encoder",
            SimCLRSettings(
                data=Data("cifar10", classes=(0, 1, 2, 3, 4), per_class=1000),
                # Half as wide, so that two cores can train it longer: bias shows late.
                encoder=replace(_SMALL, width=16),
                objective=SimCLRObjective(tau_plus=0.2),
                training=ImageTraining(epochs=80, batch=256, knn_every=10),
            ),
        ),
        "cifar10": Preset(
            "the paper's CIFAR10: ResNet-50, batch 256, 400 epochs",
            SimCLRSettings(data=Data("cifar10"), training=ImageTraining(knn_every=25)),
        ),
        "stl10": Preset(
            "the paper's STL10: train+unlabeled at 32 pixels, ResNet-50",
            SimCLRSettings(data=Data("stl10"), training=ImageTraining(knn_every=25)),
        ),
        "folder": Preset(
            "any folder of images: ResNet-18 at 64 pixels; give --data.root",
            SimCLRSettings(
                data=Data("folder"),
                views=Views(size=64, blur_kernel=7),
                encoder=SimCLREncoder("resnet18"),
                training=ImageTraining(epochs=200, schedule="cosine", warm_up=10),
            ),
        ),
    }
)
CMC_PRESETS: dict[str, Preset[CMCSettings]] = name_presets(
    {
        "cmc-small": Preset(
            "luminance against colour, memory banks, crops of 32 pixels, small encoders; give --data.root",
            CMCSettings(
                data=Data("folder", order="drawn"),
                views=_CROPS,
                encoder=Encoder("small", width=16),
                objective=CMCObjective(bank_negatives=1024),
                training=ImageTraining(epochs=30, batch=128, weight_decay=1e-4, schedule="cosine"),
            ),
        ),
        "cmc-imagenet100": Preset(
            "the paper's ImageNet-100: two ResNet-50 of half width, memory banks; give --data.root",
            CMCSettings(
                data=Data("folder", folder_size=256),
                views=replace(_CROPS, size=224),
                encoder=Encoder("resnet50", stem="imagenet", width=32, out_dim=128),
                training=ImageTraining(
                    epochs=240, batch=128, learning_rate=0.03, weight_decay=1e-4, schedule="steps", optimiser="sgd"
                ),
            ),
        ),
    }
)
PRESETS: dict[str, Preset[Any]] = {**SIMCLR_PRESETS, **CMC_PRESETS}
