"""The released protocol: its settings, its quirks, and nothing left behind."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from debiased_contrastive.evaluation.official import MULTIVIEW, OfficialProbe, official_probe

CLASSES = 7


def images(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """uint8 pixels whose brightest channel and row tell the class, most of the time."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % CLASSES
    pixels = torch.randint(120, (n, 3, 4, 4), generator=generator, dtype=torch.uint8)
    pixels[torch.arange(n), labels % 3, labels % 4] += 60
    return pixels, labels


def as_float(pixels: Tensor) -> Tensor:
    return pixels.float() / 255


def noisy(pixels: Tensor, generator: torch.Generator) -> Tensor:
    return as_float(pixels) + 0.05 * torch.randn(pixels.shape, generator=generator)


class Encoder(nn.Module):
    """Batch normalisation of the pixels; writes down how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.calls: list[tuple[bool, int]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append((self.training, len(x)))
        result: Tensor = self.norm(x)
        return result


def by_hand(encoder: Encoder, epochs: int, mode: bool, seed: int, sgd: bool = False) -> OfficialProbe:
    """The same protocol with PyTorch's own layer and hits counted one by one."""
    (pixels, labels), (test, test_labels) = images(70, 0), images(35, 1)
    layer = nn.Linear(48, CLASSES)
    draw = torch.Generator().manual_seed(seed)
    nn.init.uniform_(layer.weight, -(48**-0.5), 48**-0.5, generator=draw)
    nn.init.uniform_(layer.bias, -(48**-0.5), 48**-0.5, generator=draw)
    optimiser: torch.optim.Optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2, weight_decay=1e-6)
    if sgd:
        optimiser = torch.optim.SGD(layer.parameters(), lr=3.0, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    top1, top5 = [], []
    for epoch in range(epochs):
        if sgd:
            optimiser.param_groups[0]["lr"] = 3.0 if epoch < 5 else 0.6 if epoch < 8 else 0.12
        for rows in torch.randperm(70, generator=generator).split(32):
            encoder.train(mode)
            features = encoder(noisy(pixels[rows], generator)).detach().flatten(1)
            optimiser.zero_grad()
            torch.autograd.backward(F.cross_entropy(layer(features), labels[rows]))
            optimiser.step()
        encoder.eval()
        ranks = layer(encoder(as_float(test)).flatten(1)).argsort(1, descending=True).tolist()
        top1.append(sum(row[0] == y for row, y in zip(ranks, test_labels.tolist(), strict=True)) / 35)
        top5.append(sum(y in row[:5] for row, y in zip(ranks, test_labels.tolist(), strict=True)) / 35)
    return OfficialProbe(top1[-1], top5[-1], max(top1), top5[top1.index(max(top1))])


def probe(encode: Any, **changes: Any) -> OfficialProbe:
    settings: dict[str, Any] = {"augment": noisy, "prepare": as_float, "learning_rate": 1e-2, "batch_size": 32}
    return official_probe(encode, *images(70, 0), *images(35, 1), **(settings | changes))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_it_is_the_loop(mode: str) -> None:
    found = probe(Encoder(), epochs=12, batch_norm=mode, seed=4)
    assert found == by_hand(Encoder(), 12, mode == "train", 4)
    assert found.best_top1 > 2 / CLASSES
    assert found.last_top5 is not None
    assert found.best_top5 is not None
    assert found.last_top1 <= found.best_top1 <= found.best_top5


def test_multiview_coding_has_another_loop() -> None:
    changes = {**MULTIVIEW, "learning_rate": 3.0, "epochs": 12, "drops": (5, 8), "batch_size": 32, "seed": 4}
    assert probe(Encoder(), **changes) == by_hand(Encoder(), 12, False, 4, sgd=True)
    assert MULTIVIEW == {
        "optimiser": "sgd", "learning_rate": 30.0, "weight_decay": 0.0, "epochs": 60, "drops": (30, 40, 50),
        "batch_size": 256, "batch_norm": "eval",
    }  # fmt: skip
    with pytest.raises(ValueError, match="optimiser must be"):
        probe(Encoder(), optimiser="lbfgs")


def test_train_mode_while_training_and_nothing_left_behind() -> None:
    calls: list[tuple[bool, int]] = []
    encoder = Encoder()
    encoder.__deepcopy__ = lambda _: _copy(encoder, calls)  # type: ignore[assignment]
    before, state = {k: v.clone() for k, v in encoder.state_dict().items()}, torch.get_rng_state()
    with torch.no_grad():
        probe(encoder, epochs=2)
    epoch = [(True, 32), (True, 32), (True, 6), (False, 32), (False, 3)]
    assert calls == [(False, 1), *epoch, *epoch]
    assert encoder.calls == []
    assert encoder.training
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(torch.get_rng_state(), state)


def _copy(encoder: Encoder, calls: list[tuple[bool, int]]) -> Encoder:
    twin = Encoder()
    twin.load_state_dict(encoder.state_dict())
    twin.calls = calls
    return twin


def test_the_settings_of_the_released_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    class Adam(torch.optim.Adam):
        def __init__(self, parameters: Any, **settings: Any) -> None:
            seen.update(settings, weight=parameters[0].shape, bias=parameters[1].shape)
            super().__init__(parameters, **settings)

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    sizes: list[int] = []

    def augment(pixels: Tensor, generator: torch.Generator) -> Tensor:
        sizes.append(len(pixels))
        return noisy(pixels, generator)

    pixels, labels = images(700, 0)
    official_probe(Encoder(), pixels, labels, *images(10, 1), augment=augment, prepare=as_float)
    assert seen == {"lr": 1e-3, "weight_decay": 1e-6, "weight": (CLASSES, 48), "bias": (CLASSES,)}
    assert sizes == [512, 188] * 100


def test_a_function_serves_as_encoder_and_few_classes_have_no_top5() -> None:
    found = probe(lambda x: x.half(), epochs=3, batch_norm="eval")
    assert found.last_top5 is not None
    assert found == probe(lambda x: x.half(), epochs=3, batch_norm="eval")
    pixels, labels = images(35, 0)
    few = official_probe(
        nn.Flatten(), pixels, labels % 5, pixels, labels % 5, augment=noisy, prepare=as_float, epochs=1
    )
    assert (few.last_top5, few.best_top5) == (None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_norm": "off"}, "batch_norm must be 'train' or 'eval'; got 'off'"),
        ({"epochs": 0}, "epochs and batch_size must be at least 1; got 0 and 32"),
        ({"num_classes": 3}, "train_labels must be below num_classes=3; got 6"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probe(Encoder(), **changes)


def test_bad_input() -> None:
    with pytest.raises(
        ValueError, match="batch_norm='train' needs a module, which has a mode to set; got function"
    ):
        probe(as_float)
    pixels, labels = images(14, 0)
    with pytest.raises(ValueError, match="train_pixels must hold at least one image"):
        official_probe(Encoder(), pixels[:0], labels[:0], pixels, labels, augment=noisy, prepare=as_float)
    with pytest.raises(ValueError, match="one for each of the 14 samples"):
        official_probe(Encoder(), pixels, labels, pixels, labels[:3], augment=noisy, prepare=as_float)


class Drawer:
    """Images that are fetched when they are asked for, a batch ahead."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels, self.asked = pixels, 0

    def __len__(self) -> int:
        return len(self.pixels)

    def prefetch(self, batches_of_indices: Iterable[Tensor], /) -> Iterator[Tensor]:
        for rows in list(batches_of_indices):
            self.asked += len(rows)
            yield self.pixels[rows]


def test_images_that_do_not_fit_in_memory_give_the_same() -> None:
    (pixels, labels), (test, test_labels) = images(70, 0), images(35, 1)
    changed = {"learning_rate": 3.0, "epochs": 12, "batch_size": 32, "augment": noisy, "prepare": as_float}
    settings: dict[str, Any] = {**MULTIVIEW, **changed}
    files, test_files = Drawer(pixels), Drawer(test)
    found = official_probe(nn.Flatten(), files, labels, test_files, test_labels, **settings)
    assert found == official_probe(nn.Flatten(), pixels, labels, test, test_labels, **settings)
    assert found.best_top1 > 3 / CLASSES, "else any order of the images would give the same"
    assert (files.asked, test_files.asked) == (12 * 70, 12 * 35 + 1)
