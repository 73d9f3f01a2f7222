"""Settings are the same as attributes and as JSON, and a bad value is named in one line."""

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from debiased_contrastive.images.networks import make_method
from debiased_contrastive.images.presets import CMC_PRESETS, PRESETS, SIMCLR_PRESETS
from debiased_contrastive.images.settings import (
    CMCObjective,
    CMCSettings,
    Data,
    Encoder,
    ImageSettings,
    ImageTraining,
    SimCLREncoder,
    SimCLRObjective,
    SimCLRSettings,
    read_settings,
)
from debiased_contrastive.images.views import ColourViews, Views
from debiased_contrastive.training.gradient import learning_rate
from debiased_contrastive.training.settings import Training, as_json

OTHER = SimCLRSettings(
    preset="of mine",
    seed=7,
    data=Data("folder", Path("a/train"), Path("a/test"), (3, 1), 20, 48, "drawn", "img", None, "all", "val"),
    views=Views(
        size=24, scale=(0.2, 0.9), ratio=(0.5, 2.0), flip=0.1, jitter=(0.1, 0.2, 0.3, 0.4), jitter_probability=0.3,
        grayscale_probability=0.4, blur_probability=0.6, blur_kernel=5, blur_sigma=(0.2, 1.0),
        mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3),
    ),
    encoder=SimCLREncoder("small", "imagenet", width=16, hidden_dim=32, out_dim=8),
    objective=SimCLRObjective(
        "biased", 0.3, 0.2, on_floor="smooth", num_positives=2, beta=0.5, decoupled=True, negatives="queue", queue_size=128,
        momentum=0.9,
    ),
    training=ImageTraining(3, 8, 0.1, 0.0, "cosine", 1, "cpu", "bf16-mixed", 2, 4, 2.5, "sgd", knn_every=1),
)  # fmt: skip
CMC = CMCSettings(
    "of mine", 7, OTHER.data, ColourViews(size=24, space="ycbcr"), Encoder("small", "imagenet", 16, 8),
    CMCObjective("biased", 0.3, 0.2, on_floor="smooth", bank_negatives=7, bank_momentum=0.1, exclude_own=True), OTHER.training,
)  # fmt: skip
"""No field has its default."""


def of_sections(settings: ImageSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ("data", "views", "encoder", "objective", "training")}


def test_the_example_leaves_no_default() -> None:
    for name, section in of_sections(OTHER).items():
        default = of_sections(SimCLRSettings())[name]
        same = [item.name for item in fields(section) if getattr(section, item.name) == getattr(default, item.name)]
        assert same == ([] if name != "objective" else ["auto", "known_labels"])


@pytest.mark.parametrize("name", [*PRESETS, "default", "other", "cmc"])
def test_json_and_back(name: str) -> None:
    own = {"default": SimCLRSettings(), "other": OTHER, "cmc": CMC}
    settings = own[name] if name in own else PRESETS[name].settings
    plain = as_json(settings)
    assert read_settings(plain) == settings
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again == plain
    assert read_settings(again) == settings
    # Equal is not enough: a list would be equal to nothing, a string is no path.
    for name, section in of_sections(read_settings(again)).items():
        for item in fields(section):
            value, wanted = getattr(section, item.name), getattr(getattr(settings, name), item.name)
            assert type(value) is type(wanted), item.name


def test_json_is_what_a_person_would_write() -> None:
    plain = as_json(OTHER)
    assert plain["data"] == {
        "name": "folder", "root": "a/train", "test_root": "a/test", "classes": [3, 1], "per_class": 20, "folder_size": 48,
        "order": "drawn", "image_column": "img", "label_column": None, "train_split": "all", "test_split": "val",
    }  # fmt: skip
    assert plain["seed"] == 7
    assert plain["views"]["jitter"] == [0.1, 0.2, 0.3, 0.4]
    assert as_json(SimCLRSettings())["data"]["root"] is None


def test_every_preset_says_what_it_is() -> None:
    assert {
        "demo", "cifar10-small", "cifar10", "stl10", "folder", "cmc-small", "cmc-imagenet100",
    } == set(PRESETS)  # fmt: skip
    for name, preset in PRESETS.items():
        assert preset.settings.preset == name
        assert preset.what
        assert "\n" not in preset.what


@pytest.mark.parametrize("name", ["cifar10", "stl10"])
def test_the_papers_presets_are_the_papers(name: str) -> None:
    """Appendix B and the released code."""
    settings = SIMCLR_PRESETS[name].settings
    assert settings.data == Data(name)  # type: ignore[arg-type]
    assert settings.encoder == SimCLREncoder("resnet50", "cifar", 64, 128, 512)
    assert settings.objective == SimCLRObjective("debiased", tau_plus=0.1, temperature=0.5, num_positives=1)
    assert settings.objective.on_floor == "clamp"
    training = settings.training
    assert (training.epochs, training.batch, training.schedule) == (400, 256, "constant")
    assert (training.learning_rate, training.weight_decay) == (1e-3, 1e-6)
    assert settings.views.size == 32


def test_the_papers_multiview_coding_is_the_papers() -> None:
    """Table 1, and the released code of contrastive multiview coding."""
    settings = CMC_PRESETS["cmc-imagenet100"].settings
    assert settings.encoder == Encoder("resnet50", "imagenet", width=32, out_dim=128)
    objective = settings.objective
    assert (objective.temperature, objective.on_floor) == (0.07, "biased")
    assert (objective.bank_negatives, objective.bank_momentum, objective.exclude_own) == (4096, 0.5, False)
    training = settings.training
    assert (training.epochs, training.batch, training.schedule) == (240, 128, "steps")
    assert (training.optimiser, training.learning_rate, training.weight_decay) == ("sgd", 0.03, 1e-4)
    assert (settings.views.size, settings.views.scale, settings.views.space) == (224, (0.2, 1.0), "lab")
    rate = learning_rate("steps", 0.03, steps=240)
    assert [round(rate(epoch), 6) for epoch in (0, 119, 120, 159, 160, 199, 200, 239)] == [
        0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003, 0.00003, 0.00003,
    ]  # fmt: skip


EARLIER: dict[str, dict[str, Any]] = {
    "encoder": {"pair": False},
    "objective": {"bank_negatives": 4096, "bank_momentum": 0.5, "exclude_own": False},
    "views": {"space": "rgb"},
}
EARLIER_CMC: dict[str, dict[str, Any]] = {
    "encoder": {"pair": True, "hidden_dim": 256},
    "objective": {
        "num_positives": 1, "known_labels": 0.0, "beta": 0.0, "negatives": "bank", "queue_size": 4096, "momentum": 0.99,
    },
}  # fmt: skip


@pytest.mark.parametrize(("settings", "more"), [(OTHER, EARLIER), (CMC, EARLIER_CMC)])
def test_settings_of_earlier_versions_are_read(settings: ImageSettings, more: dict[str, dict[str, Any]]) -> None:
    plain = as_json(settings)
    for section, values in more.items():
        plain[section] |= values
    assert read_settings(plain) == settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bank_momentum": 1.0}, r"bank_momentum must lie in \[0, 1\); got 1.0: 0.5 is usual"),
        ({"bank_negatives": 0}, "bank_negatives must be an integer of at least 1; got 0"),
        ({"kind": "unbiased"}, "kind must be one of 'biased', 'debiased'; got 'unbiased'"),
        ({"temperature": 0.0}, "temperature must be positive; got 0.0"),
    ],
)
def test_a_bank_has_sound_numbers_and_no_oracle(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CMCObjective(**change)


def test_the_loss_is_given_a_prior_by_the_debiased_one_alone() -> None:
    assert SimCLRObjective("debiased", tau_plus=0.3).correction == 0.3
    assert SimCLRObjective("biased", tau_plus=0.3).correction == 0
    assert SimCLRObjective("unbiased", tau_plus=0.3).correction == 0


def test_settings_do_not_change() -> None:
    for section in (OTHER, *of_sections(OTHER).values()):
        with pytest.raises(FrozenInstanceError):
            setattr(section, fields(section)[0].name, 1)


NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SimCLRObjective(tau_plus=1.0), r"tau_plus must lie in \[0, 1\); got 1.0: "),
        (lambda: SimCLRObjective(tau_plus=-0.1), r"tau_plus must lie in \[0, 1\); got -0.1: "),
        (lambda: SimCLRObjective(tau_plus=NAN), r"tau_plus must lie in \[0, 1\); got nan: "),
        (lambda: SimCLRObjective(beta=-1.0), "beta must be a finite number >= 0; got -1.0: "),
        (lambda: SimCLRObjective(beta=float("inf")), "beta must be a finite number >= 0; got inf: "),
        (lambda: SimCLRObjective(temperature=0.0), "temperature must be positive; got 0.0: 0.1 to 0.5 is usual"),
        (lambda: SimCLRObjective(temperature=-0.5), "temperature must be positive; got -0.5: "),
        (lambda: SimCLRObjective(temperature=NAN), "temperature must be positive; got nan: "),
        (
            lambda: SimCLRObjective(num_positives=0),
            "num_positives must be at least 1; got 0: the other view is one",
        ),
        (lambda: SimCLRObjective(known_labels=1.1), r"known_labels must lie in \[0, 1\]; got 1.1: it is a share"),
        (lambda: SimCLRObjective(known_labels=-0.1), r"known_labels must lie in \[0, 1\]; got -0.1: it is a share"),
        (lambda: SimCLRObjective(known_labels=NAN), r"known_labels must lie in \[0, 1\]; got nan: it is a share"),
        (
            lambda: SimCLRObjective("biased", auto=True),
            "auto is for kind=debiased with tau_plus, the prior, above 0; got kind=bi",
        ),
        (lambda: SimCLRObjective(tau_plus=0.0, auto=True), "got kind=debiased, tau_plus=0.0"),
        (
            lambda: SimCLRObjective("biased", known_labels=0.5),
            "known_labels is for kind=debiased with negatives=batch; got kind=biased, negatives=batch: set",
        ),
        (
            lambda: SimCLRObjective("unbiased", known_labels=0.5),
            "known_labels is for kind=debiased with negatives=batch; got kind=unbiased, negatives=batch: set",
        ),
        (
            lambda: SimCLRObjective(known_labels=0.5, negatives="queue"),
            "got kind=debiased, negatives=queue: set known_labels to 0",
        ),
        (
            lambda: SimCLRObjective("debaised"),  # type: ignore[arg-type]
            "kind must be one of 'biased', 'debiased', 'unbiased'; got 'debaised'",
        ),
        (
            lambda: SimCLREncoder("vgg"),
            "name must be one of small, resnet18, resnet34, resnet50, or timm:NAME; got 'vgg'",
        ),
        (lambda: SimCLRObjective(queue_size=0), "queue_size must be an integer of at least 1; got 0"),
        (lambda: SimCLRObjective(momentum=2.0), r"momentum must lie in \[0, 1\]; got 2.0"),
        (lambda: Data(per_class=0), "per_class must be an integer of at least 1; got 0"),
        (lambda: Data(folder_size=0), "folder_size must be an integer of at least 1; got 0"),
        (lambda: Training(batch="256"), "batch must be an integer of at least 1; got '256'"),  # type: ignore[arg-type]
        (lambda: Training(epochs=0), "epochs must be an integer of at least 1; got 0"),
        (lambda: Training(batch=0), "batch must be an integer of at least 1; got 0"),
        (lambda: Training(log_every=0), "log_every must be an integer of at least 1; got 0"),
        (lambda: Training(checkpoint_every=-1), "checkpoint_every must be an integer of at least 0; got -1"),
        (lambda: ImageTraining(knn_every=-1), "knn_every must be an integer of at least 0; got -1"),
        (lambda: Training(warm_up=-1), "warm_up must be an integer of at least 0; got -1"),
        (lambda: Training(learning_rate=0.0), "learning_rate must be positive, .*; got 0.0, 1e-06 and 0.0"),
        (lambda: Training(learning_rate=NAN), "learning_rate must be positive, .*; got nan, 1e-06 and 0.0"),
        (lambda: Training(weight_decay=-1.0), "weight_decay and clip at least 0; got 0.001, -1.0"),
        (lambda: Training(weight_decay=NAN), "weight_decay and clip at least 0; got 0.001, nan"),
        (lambda: Views(blur_probability=1.5), r"blur_probability must lie in \[0, 1\]; got 1.5"),
        (lambda: Views(size=0), "size must be at least 1 and blur_kernel odd; got size=0"),
    ],
)
def test_a_bad_value_is_named_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_ends_of_the_ranges_are_inside() -> None:
    SimCLRObjective(tau_plus=0.0, known_labels=1.0, num_positives=1, beta=0.0)
    SimCLRObjective("biased", known_labels=0.0, negatives="queue")
    ImageTraining(1, 1, log_every=1, checkpoint_every=0, knn_every=0, warm_up=0, weight_decay=0.0)


def test_bad_values_in_a_file_are_named_too() -> None:
    plain = as_json(SimCLRSettings())
    plain["objective"]["temperature"] = -1
    with pytest.raises(ValueError, match="temperature must be positive; got -1"):
        read_settings(plain)


@pytest.mark.parametrize("where", ["", "data", "views", "encoder", "objective", "training"])
def test_unknown_and_missing_names_are_refused(where: str) -> None:
    def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        plain = as_json(OTHER)
        change(plain[where] if where else plain)
        return plain

    first = "seed" if not where else fields(getattr(OTHER, where))[0].name
    title = f"settings.{where}" if where else "settings"
    for change, message in (
        (lambda section: section.update(colour=1), r"got \['colour'\] too many and \[\] too few: "),
        (lambda section: section.pop(first), rf"got \[\] too many and \['{first}'\] too few: "),
    ):
        with pytest.raises(ValueError, match=f"^{title} must have exactly .*{message}") as caught:
            read_settings(changed(change))
        assert str(caught.value).endswith("the run was made by another version")
        assert "\n" not in str(caught.value)


def test_what_is_no_section_is_refused() -> None:
    contents: tuple[Any, ...] = ([], "x", None)
    for content in contents:
        plain = as_json(OTHER) | {"data": content}
        with pytest.raises(ValueError, match=r"settings.data must have exactly .*'root'"):
            read_settings(plain)
    with pytest.raises(ValueError, match="settings must have exactly"):
        read_settings([])  # type: ignore[arg-type]


def test_settings_with_another_value_are_other_settings() -> None:
    assert replace(OTHER, seed=8) != OTHER
    assert read_settings(as_json(replace(OTHER, seed=8))) != OTHER


@pytest.mark.parametrize("negatives", ["batch", "queue"])
def test_the_decoupled_loss_is_a_setting_that_old_runs_do_not_have(negatives: Literal["batch", "queue"]) -> None:
    plain = SIMCLR_PRESETS["demo"].settings
    assert "decoupled" not in as_json(plain)["objective"]
    objective = replace(plain.objective, kind="biased", decoupled=True, negatives=negatives)
    settings = replace(plain, objective=objective)
    assert read_settings(as_json(settings)) == settings
    assert make_method(settings, gather=False).loss.decoupled
