"""Named settings: a demonstration for two cores, the same question on CIFAR10, the paper's experiments."""

from dataclasses import dataclass, replace

from debiased_contrastive.images.settings import Data, Encoder, Objective, Settings
from debiased_contrastive.images.views import SimCLRViews
from debiased_contrastive.training.settings import Training


@dataclass(frozen=True)
class Preset:
    """Settings with a line that says what they are."""

    what: str
    settings: Settings


_FASHION_VIEWS = SimCLRViews(size=28, scale=(0.3, 1.0), blur_probability=0.0, mean=(0.286,), std=(0.353,))
_SMALL = Encoder(name="small", width=32, hidden_dim=256, out_dim=128)

_CROPS = SimCLRViews(
    scale=(0.2, 1.0), jitter_probability=0.0, grayscale_probability=0.0, blur_probability=0.0, space="lab"
)
_CMC = Objective(tau_plus=0.01, temperature=0.07, on_floor="biased", negatives="bank")

_PRESETS = {
    "demo": Preset(
        "the Fashion-MNIST subset inside the package, small encoder",
        Settings(
            data=Data("fashion"),
            views=_FASHION_VIEWS,
            encoder=_SMALL,
            training=Training(epochs=20, batch=256, knn_every=4),
        ),
    ),
    "cifar10-small": Preset(
        "five classes of CIFAR10, 1,000 images each, small encoder",
        Settings(
            data=Data("cifar10", classes=(0, 1, 2, 3, 4), per_class=1000),
            # Half as wide, so that two cores can train it longer: bias shows late.
            encoder=replace(_SMALL, width=16),
            objective=Objective(tau_plus=0.2),
            training=Training(epochs=80, batch=256, knn_every=10),
        ),
    ),
    "cifar10": Preset(
        "the paper's CIFAR10: ResNet-50, batch 256, 400 epochs",
        Settings(data=Data("cifar10"), training=Training(knn_every=25)),
    ),
    "stl10": Preset(
        "the paper's STL10: train+unlabeled at 32 pixels, ResNet-50",
        Settings(data=Data("stl10"), training=Training(knn_every=25)),
    ),
    "folder": Preset(
        "any folder of images: ResNet-18 at 64 pixels; give --data.root",
        Settings(
            data=Data("folder"),
            views=SimCLRViews(size=64, blur_kernel=7),
            encoder=Encoder("resnet18"),
            training=Training(epochs=200, schedule="cosine", warm_up=10),
        ),
    ),
    "cmc-small": Preset(
        "luminance against colour, memory banks, crops of 32 pixels, small encoders; give --data.root",
        Settings(
            data=Data("folder", order="drawn"),
            views=_CROPS,
            encoder=replace(_SMALL, width=16, pair=True),
            objective=replace(_CMC, bank_negatives=1024),
            training=Training(epochs=30, batch=128, weight_decay=1e-4, schedule="cosine"),
        ),
    ),
    "cmc-imagenet100": Preset(
        "the paper's ImageNet-100: two ResNet-50 of half width, memory banks; give --data.root",
        Settings(
            data=Data("folder", folder_size=256),
            views=replace(_CROPS, size=224),
            encoder=Encoder("resnet50", stem="imagenet", width=32, out_dim=128, pair=True),
            objective=_CMC,
            training=Training(
                epochs=240, batch=128, learning_rate=0.03, weight_decay=1e-4, schedule="steps", optimiser="sgd"
            ),
        ),
    ),
}

PRESETS = {name: Preset(preset.what, replace(preset.settings, preset=name)) for name, preset in _PRESETS.items()}
