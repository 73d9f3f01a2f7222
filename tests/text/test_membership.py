"""What is known about sentences, in training: groups and guides from files, begun, resumed, weighted as the loss says."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from debiased_contrastive.cli.main import main
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.runs import new_run
from debiased_contrastive.text.frozen import load_encoder
from debiased_contrastive.text.quickthoughts import QuickThoughts
from debiased_contrastive.text.settings import TextMembership, TextObjective, TextSettings, with_corpus
from debiased_contrastive.text.towers import build_tower
from debiased_contrastive.training.checkpoint import latest_checkpoint
from debiased_contrastive.training.machine import start_fabric
from debiased_contrastive.training.settings import as_json, from_json
from tests.images.test_processes import check_same_weights, trained_by_one_and_two
from tests.images.test_resume import metrics
from tests.text.test_run import settings_of, train_until

SENTENCES = 200
STEPS = 10
"""Steps of an epoch."""


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return start_fabric("cpu")


def known(folder: Path, source: str, **changed: Any) -> TextSettings:
    """Settings with a file that knows which of two kinds a sentence is of."""
    kinds = np.arange(SENTENCES) // 10 % 2
    if source == "groups":
        (folder / "file.txt").write_text("".join(f"{('sea', 'town')[kind]}\n" for kind in kinds))
        path = folder / "file.txt"
    else:
        path = folder / "file.npy"
        noise = np.random.default_rng(0).normal(size=(SENTENCES, 4), scale=0.1)
        np.save(path, (np.eye(4)[kinds] + noise).astype(np.float32))
    membership = TextMembership(source, path, num_classes=2, **changed)  # type: ignore[arg-type]
    return settings_of(folder, membership=membership)


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in metrics(folder)]


@pytest.mark.parametrize(
    ("source", "form"), [("groups", "consensus"), ("guide", "consensus"), ("guide", "walk"), ("guide", "random")]
)
def test_it_begins_after_the_warm_up_and_is_in_the_log(
    source: str, form: Any, tmp_path: Path, fabric: Fabric
) -> None:
    settings = known(tmp_path, source, form=form, warm_up=1)
    biased = settings_of(tmp_path, objective=TextObjective("biased"))
    for name, each in (("known", settings), ("biased", biased)):
        train_until(each, new_run(tmp_path / name, as_json(each)), fabric)
    assert losses(tmp_path / "known")[:STEPS] == losses(tmp_path / "biased")[:STEPS]
    assert losses(tmp_path / "known")[STEPS] != losses(tmp_path / "biased")[STEPS]
    lines = metrics(tmp_path / "known")
    assert ["mean_q" in line for line in lines] == [line["step"] > STEPS for line in lines]
    assert ["biased_loss" in line for line in lines] == [line["step"] <= STEPS for line in lines]
    assert all(0 < line["mean_q"] < 1 and line["effective_number"] <= 18 for line in lines[STEPS:])
    # The knowledge was of the training, not of the towers.
    assert load_encoder(tmp_path / "known").encode(["sea1 sea2", "town3"]).shape == (2, 24)


@pytest.mark.parametrize("stop", [7, 13])
def test_a_run_that_is_stopped_ends_as_one_that_was_not(stop: int, tmp_path: Path, fabric: Fabric) -> None:
    settings = known(tmp_path, "guide", warm_up=1)
    whole, parts = (new_run(tmp_path / name, as_json(settings)) for name in ("whole", "parts"))
    train_until(settings, whole, fabric)
    train_until(settings, parts, fabric, stop)
    train_until(settings, parts, fabric)
    assert losses(whole.folder) == losses(parts.folder)
    names = ("encoder.safetensors", "encoder.json")
    assert all((whole.folder / name).read_bytes() == (parts.folder / name).read_bytes() for name in names)
    state, _ = latest_checkpoint(whole.folder)
    assert state is not None
    held = TrainingKnowledge()
    held.load_state_dict({"_extra_state": state["module"]["known._extra_state"]})
    assert held.knowledge is not None
    assert held.knowledge.partitions is not None
    assert held.knowledge.partitions.shape == (SENTENCES, 30)


@pytest.mark.parametrize(
    ("source", "strength", "words"),
    [
        ("groups", 0.2, "Strength 0.2: the knowledge says 0 or 1"),
        ("guide", 1.0, "Strength 1: the knowledge is soft"),
    ],
)
def test_a_strength_auto_follows_the_safe_rule(
    source: str, strength: float, words: str, tmp_path: Path, fabric: Fabric, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = known(tmp_path, source, strength="auto", warm_up=1)
    assert from_json(TextSettings, as_json(auto)) == auto
    parts = new_run(tmp_path / "auto", as_json(auto))
    train_until(auto, parts, fabric, 13)
    train_until(auto, parts, fabric)
    said = [line for line in capsys.readouterr().err.splitlines() if "Strength" in line]
    lines = metrics(tmp_path / "auto")
    chosen = [strength] * (len(lines) - STEPS)
    assert [line.get("membership_strength") for line in lines] == [None] * STEPS + chosen
    assert len(said) == 1
    assert said[0].startswith(f"membership: {words}")
    fixed = known(tmp_path, source, strength=strength, warm_up=1)
    train_until(fixed, new_run(tmp_path / "fixed", as_json(fixed)), fabric)
    assert losses(tmp_path / "fixed") == losses(tmp_path / "auto")
    assert "membership_strength" not in metrics(tmp_path / "fixed")[-1]


@pytest.mark.parametrize("own", [False, True], ids=["of the method", "of the knowledge"])
@pytest.mark.parametrize("denominator", ["others", "original"])
def test_the_loss_is_the_formula_of_each_pair(denominator: Any, own: bool) -> None:
    torch.manual_seed(0)
    left, right = (build_tower("bag", 20, 5, 4, 6) for _ in range(2))
    strength = 0.1 if own else 0.7
    method = QuickThoughts(left, right, tau_plus=0.0, temperature=0.5, denominator=denominator, strength=strength)
    tokens, lengths = torch.randint(1, 20, (6, 4)), torch.full((6,), 4)
    linked, ids = torch.tensor([True, True, False, True, True]), torch.tensor([4, 1, 0, 5, 3, 2])
    membership = torch.rand(6, 3).softmax(1)
    method.known = TrainingKnowledge()
    method.known.hold(Knowledge(membership=membership, strength=0.7 if own else None))
    with torch.no_grad():
        found = float(method(tokens, lengths, linked, ids))
        u, v = (torch.nn.functional.normalize(tower(tokens, lengths)) for tower in (left, right))
        s = (u @ v.T / 0.5).tolist()
    of_sentence = {0: [1], 1: [0, 2], 2: [1], 3: [4], 4: [3, 5], 5: [4]}
    total = 0.0
    for i, near in of_sentence.items():
        for j in near:
            weights, exponentials = [], []
            for k in range(6):
                if k == j or (denominator == "others" and k in (i, *near)):
                    continue
                q = 0.0 if k == i else float(membership[ids[i]] @ membership[ids[k]])
                weights.append(1 - 0.7 * q)
                exponentials.append(math.exp(0.0 if k == i else s[i][k]))
            mean = sum(w * e for w, e in zip(weights, exponentials, strict=True)) / sum(weights)
            total += math.log(1 + len(weights) * mean / math.exp(s[i][j])) / len(near) / 6
    assert found == pytest.approx(total, rel=1e-5)


def test_sentences_of_one_group_alone_leave_nothing_to_tell_apart() -> None:
    torch.manual_seed(0)
    method = QuickThoughts(*(build_tower("bag", 20, 5, 4, 6) for _ in range(2)), tau_plus=0.0)
    method.known = TrainingKnowledge()
    method.known.hold(Knowledge(partitions=torch.zeros(6, 1, dtype=torch.int64)))
    arguments = torch.randint(1, 20, (6, 4)), torch.full((6,), 4), torch.ones(5, dtype=torch.bool)
    loss = method(*arguments, torch.arange(6))
    assert float(loss.detach()) == 0
    loss.backward()
    assert all(weight.grad is None or bool(weight.grad.isfinite().all()) for weight in method.parameters())


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    settings = known(tmp_path, "guide")
    arguments = ["train", "quickthoughts-small", "--corpus", str(settings.text.path), "--training.batch", "20",
                 "--towers.word-dim", "8", "--towers.hidden-dim", "6", "--training.accelerator", "cpu",
                 "--training.log-every", "1", "--membership.source", "guide",
                 "--membership.file", str(settings.membership.file)]  # fmt: skip
    one, two = trained_by_one_and_two(arguments, tmp_path)
    torch.testing.assert_close(torch.tensor(losses(two)), torch.tensor(losses(one)), rtol=0, atol=1e-4)
    check_same_weights(one, two, atol=1e-3)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--membership.source", "own"], "--membership.source"),
        (["--membership.source", "guide"], "a guide of sentences is a file with an embedding of each"),
        (["--membership.source", "groups", "--membership.file", "FEW"], "a row for each of the 200 samples"),
        (["--membership.strength", "0.5"], "membership.strength has no effect without a source; got 0.5"),
        (
            ["--membership.source", "groups", "--membership.file", "FEW", "--objective.kind", "biased"],
            "kind=debiased",
        ),
    ],
)
def test_a_mistake_is_one_line(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few.txt").write_text("1\n")
    corpus = settings_of(tmp_path).text.path
    flags = [str(tmp_path / "few.txt") if flag == "FEW" else flag for flag in flags]
    with pytest.raises(SystemExit) as end:
        main(["train", "quickthoughts-small", "--corpus", str(corpus), *flags, "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_settings_come_back_with_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = with_corpus(TextSettings(membership=TextMembership("groups", Path("groups.txt"))))
    assert settings.membership.file == tmp_path / "groups.txt"
    assert from_json(TextSettings, as_json(settings)) == settings
    assert "membership" not in as_json(TextSettings())
