"""What is known about classes, in training: every source by the command line, begun, refreshed, resumed, refused."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from debiased_contrastive.cli.main import main
from debiased_contrastive.domain import name_run
from debiased_contrastive.images.membership import ImageMembership
from debiased_contrastive.images.presets import SIMCLR_PRESETS
from debiased_contrastive.images.settings import SimCLRSettings, read_settings
from debiased_contrastive.images.sources import read_training_images
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.strength import choose_strength
from debiased_contrastive.membership.training import TrainingKnowledge
from debiased_contrastive.training.checkpoint import latest_checkpoint
from debiased_contrastive.training.settings import as_json
from tests.images.test_cmc_runs import SMALL as SMALL_CMC
from tests.images.test_cmc_runs import two_colours
from tests.images.test_processes import check_same_weights, trained_by_one_and_two
from tests.images.test_resume import finish, metrics, stop_at

STEPS = 5
"""Steps of an epoch."""
SMALL = [
    "--data.per-class", "16", "--training.batch", "32", "--training.epochs", "4", "--training.knn-every", "0",
    "--training.log-every", "1", "--training.checkpoint-every", "3", "--encoder.width", "4", "--encoder.hidden-dim", "16",
    "--encoder.out-dim", "8", "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip
QUEUE = ["--objective.negatives", "queue", "--objective.queue-size", "100"]
LEARNT = ["--membership.warm-up", "1", "--membership.refresh", "2"]
READ = ["--membership.known", "0.4"]
Line = dict[str, Any]


def train(out: Path, *flags: str) -> list[Line]:
    main(["train", "demo", *SMALL, *flags, "--out", str(out)])
    return metrics(out)


def losses(lines: list[Line]) -> list[float]:
    return [line["loss"] for line in lines]


@pytest.fixture(scope="module")
def labels() -> torch.Tensor:
    settings = SIMCLR_PRESETS["demo"].settings
    images = read_training_images(read_settings(as_json(settings)).data).only(range(10), 16)
    assert images.labels is not None
    return images.labels


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, labels: torch.Tensor) -> dict[str, list[str]]:
    """Flags of the sources that read a file; the guide knows the classes, and so do the groups."""
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "groups.npy", labels.numpy())
    noise = torch.randn(len(labels), 10, generator=torch.Generator().manual_seed(0))
    guide = torch.nn.functional.one_hot(labels, 10) + 0.1 * noise
    np.save(folder / "guide.npy", guide.numpy().astype(np.float32))
    return {name: ["--membership.source", name, "--membership.file", str(folder / f"{name}.npy")]
            for name in ("groups", "guide")}  # fmt: skip


@pytest.mark.parametrize(
    "source", ["labels", "classifier", "own", "own-walk", "guide", "guide-walk", "guide-random", "patches"]
)
@pytest.mark.parametrize("queue", [False, True], ids=["batch", "queue"])
def test_every_source_trains(source: str, queue: bool, tmp_path: Path, files: dict[str, list[str]]) -> None:
    name, _, form = source.partition("-")
    flags = {"guide": files["guide"], "patches": ["--membership.source", "guide"]}.get(
        name, ["--membership.source", name]
    )
    flags = [*flags, *(READ if name in ("labels", "classifier") else []), *LEARNT, *(QUEUE if queue else [])]
    flags += ["--membership.form", form] if form else []
    lines = train(tmp_path / "run", *flags)
    before, after = lines[:STEPS], lines[STEPS:]
    assert not any("mean_q" in line for line in before)
    assert all(0 < line["mean_q"] < 0.5 and 1 < line["effective_number"] <= line["num_unlabeled"] for line in after)
    # The worth is logged at the first step with knowledge, and two epochs later.
    assert [line["step"] for line in lines if "force_share" in line] == [6, 16]
    worth = lines[STEPS]
    if name in ("labels", "classifier") or source in ("guide", "guide-walk"):
        assert worth["force_share"] > 0.02
        # Labels say nothing of the images by which they are judged: those whose label is not known.
        assert name == "labels" or worth["membership_accuracy"] > 0.3
    if source == "guide-random":
        assert worth["force_share"] < 0.1
        assert worth["membership_accuracy"] < 0.4


@pytest.mark.parametrize("queue", [False, True], ids=["batch", "queue"])
def test_until_it_begins_the_loss_is_biased(queue: bool, tmp_path: Path) -> None:
    more = QUEUE if queue else []
    biased = losses(train(tmp_path / "biased", "--objective.kind", "biased", *more))
    flags = ["--membership.source", "own", "--membership.warm-up", "1", "--membership.refresh", "1"]
    known = losses(train(tmp_path / "known", *flags, *more))
    assert known[:STEPS] == biased[:STEPS]
    assert known[STEPS] != biased[STEPS]


@pytest.mark.parametrize("queue", [False, True], ids=["batch", "queue"])
def test_all_labels_and_true_groups_train_as_the_oracle_does(
    queue: bool, tmp_path: Path, files: dict[str, list[str]]
) -> None:
    more = QUEUE if queue else []
    oracle = losses(train(tmp_path / "oracle", "--objective.kind", "unbiased", *more))
    all_labels = ["--membership.source", "labels", "--membership.known", "1"]
    for name, flags in (("labels", all_labels), ("groups", files["groups"])):
        lines = train(tmp_path / name, *flags, *more)
        assert losses(lines) == pytest.approx(oracle, rel=2e-3)
        assert lines[0]["force_share"] == pytest.approx(1.0)


def test_strength_0_is_biased_and_attraction_changes_the_loss(tmp_path: Path) -> None:
    labels = ["--membership.source", "labels", "--membership.known", "1"]
    biased = losses(train(tmp_path / "biased", "--objective.kind", "biased"))
    assert losses(train(tmp_path / "none", *labels, "--membership.strength", "0")) == biased
    plain, pulled = (
        losses(train(tmp_path / f"attraction{value}", *labels, "--membership.attraction", value))
        for value in ("0", "1")
    )
    assert plain[0] != pulled[0]


@pytest.mark.parametrize(
    "flags",
    [
        ["--membership.source", "classifier", *READ],
        ["--membership.source", "own", *QUEUE],
        ["--membership.source", "guide", "--membership.strength", "auto", *READ],
    ],
    ids=["batch", "queue", "auto"],
)
def test_killed_between_two_refreshes_it_goes_on_with_the_same_knowledge(flags: list[str], tmp_path: Path) -> None:
    arguments = ["train", "demo", *SMALL, *LEARNT, *flags]
    whole, run = tmp_path / "whole", tmp_path / "run"
    finish(*arguments, "--out", str(whole))
    # Knowledge is made before steps 6 and 16, checkpoints after every third: one of 9 or 12 is in between.
    assert stop_at(run, 10, [*arguments, "--out", str(run)], signal.SIGKILL) == -signal.SIGKILL
    state, _ = latest_checkpoint(run)
    assert state is not None
    assert 6 <= state["step"] < 15, "the machine was too fast or too slow for this test"
    finish("resume", str(run), "--quiet")
    assert metrics(run) == metrics(whole)
    assert (run / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()


@pytest.mark.parametrize(
    "flags",
    [
        ["--membership.source", "classifier", *READ],
        ["--membership.source", "own", "--membership.form", "walk"],
        ["--membership.source", "own", *QUEUE],
        ["--membership.source", "classifier", "--membership.strength", "auto", *READ],
    ],
    ids=["classifier", "graph", "queue", "auto"],
)
def test_two_processes_train_as_one(flags: list[str], tmp_path: Path) -> None:
    one, two = trained_by_one_and_two(["train", "demo", *SMALL, *LEARNT, *flags], tmp_path)
    # Until knowledge is made anew from weights that differ by rounding.
    alone, together = (torch.tensor(losses(metrics(run))) for run in (one, two))
    torch.testing.assert_close(together[:15], alone[:15], rtol=0, atol=1e-2)
    assert all("force_share" in metrics(run)[5] for run in (one, two))
    check_same_weights(one, two, atol=0.1)


AUTO = ["--membership.strength", "auto", *LEARNT, *READ]
LABEL_FREE = ["--membership.strength", "auto", *LEARNT, "--membership.known", "0"]


def strengths(lines: list[Line]) -> dict[int, float]:
    return {line["step"]: line["membership_strength"] for line in lines if "membership_strength" in line}


@pytest.mark.parametrize("queue", [False, True], ids=["batch", "queue"])
@pytest.mark.parametrize("source", ["labels", "classifier", "own", "groups", "patches"])
def test_a_few_labels_choose_the_strength(
    source: str, queue: bool, tmp_path: Path, files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = files.get(source, ["--membership.source", "guide" if source == "patches" else source])
    lines = train(tmp_path / "run", *flags, *AUTO, *(QUEUE if queue else []))
    found = strengths(lines)
    # Chosen anew with each refresh, also of knowledge that is made once.
    assert list(found) == [6, 16]
    if source in ("labels", "groups"):
        assert list(found.values()) == pytest.approx([1, 1], rel=1e-3)
    else:
        assert all(strength >= 0 for strength in found.values())
        assert found[6] != found[16]
    said = [line for line in capsys.readouterr().err.splitlines() if "Strength" in line]
    assert len(said) == 1
    if source == "labels":
        assert said == ["membership: Strength 1: labels are facts."]
    else:
        chosen = f"membership: Strength {found[6]:.2f}: it has the largest force share on 60 labels. So few can be"
        assert said[0].startswith(chosen)
    # The loss was told: strength and share are those of the log.
    if source in ("own", "patches"):
        plain = train(tmp_path / "plain", *flags, *LEARNT, *(QUEUE if queue else []))
        assert losses(plain)[:STEPS] == losses(lines)[:STEPS]
        fixed = ["--membership.strength", repr(found[6])]
        same = train(tmp_path / "fixed", *flags, *LEARNT, *fixed, *(QUEUE if queue else []))
        assert losses(same)[:15] == losses(lines)[:15] != losses(plain)[:15]
        assert same[STEPS]["force_share"] == lines[STEPS]["force_share"]


@pytest.mark.parametrize("source", ["own", "groups"])
def test_without_labels_the_rule_is_said_once(
    source: str, tmp_path: Path, files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = train(tmp_path / "run", *files.get(source, ["--membership.source", source]), *LABEL_FREE)
    hard = source == "groups"
    assert list(strengths(lines).values()) == ([0.2, 0.2] if hard else [1, 1])
    said = [line for line in capsys.readouterr().err.splitlines() if "Strength" in line]
    assert len(said) == 1
    assert said[0].startswith(
        "membership: Strength 0.2: " if hard else "membership: Strength 1: the knowledge is soft"
    )


def test_auto_says_that_it_leaves_attraction_alone(
    tmp_path: Path, files: dict[str, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = [*files["groups"], *AUTO, "--membership.attraction", "0.3"]
    train(tmp_path / "run", *pulled)
    said = [line for line in capsys.readouterr().err.splitlines() if "attraction" in line]
    assert said == ["membership: attraction stays at 0.3: auto chooses the strength alone"]
    monkeypatch.setattr("debiased_contrastive.membership.strength.best_strength", lambda *_: 0.04)
    train(tmp_path / "wary", *pulled)
    said = [line for line in capsys.readouterr().err.splitlines() if "attraction" in line]
    assert said == [
        "membership: a strength of 0.04 hardly trusts the knowledge, but attraction 0.3 still pulls its pairs "
        "together: set --membership.attraction 0"
    ]


def test_a_classifier_is_not_judged_by_labels_that_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def choose(knowledge: Knowledge, z: torch.Tensor, labels: torch.Tensor, **given: Any) -> Knowledge:
        seen.append((knowledge.of(given["rows"]).membership, labels, given["temperature"]))
        return choose_strength(knowledge, z, labels, **given)

    monkeypatch.setattr("debiased_contrastive.images.knowledge.choose_strength", choose)
    train(tmp_path / "run", "--membership.source", "classifier", *AUTO, "--objective.temperature", "0.3")
    assert len(seen) == 2
    for membership, labels, temperature in seen:
        assert membership is not None
        assert float(membership.max()) < 1
        assert temperature == 0.3
        assert len(labels) == 60
        assert int(labels.min()) >= 0
    state, _ = latest_checkpoint(tmp_path / "run")
    assert state is not None
    # In training, known labels are facts.
    held = TrainingKnowledge()
    held.load_state_dict({"_extra_state": state["module"]["known._extra_state"]})
    assert held.knowledge is not None
    assert held.knowledge.membership is not None
    assert int((held.knowledge.membership.amax(1) == 1).sum()) == 60


@pytest.mark.parametrize("form", ["labels", "classifier", "consensus", "walk"])
def test_multiview_coding_trains_with_it(form: str, tmp_path: Path) -> None:
    images = two_colours(tmp_path / "images")
    flags = ["--membership.source", "guide", "--membership.form", form, "--membership.num-classes", "2"]
    if form in ("labels", "classifier"):
        flags = ["--membership.source", form, "--membership.known", "0.5"]
    arguments = ["train", "cmc-small", "--data.root", str(images), *SMALL_CMC, *flags, "--membership.warm-up", "2"]
    main([*arguments, "--out", str(tmp_path / "run")])
    lines = metrics(tmp_path / "run")
    assert ["mean_q" in line for line in lines] == [line["step"] > 6 for line in lines]
    assert "force_share" in lines[6]


def test_multiview_coding_trains_with_the_strength_that_is_chosen(tmp_path: Path) -> None:
    images = two_colours(tmp_path / "images")
    flags = ["--membership.source", "guide", "--membership.num-classes", "2", "--membership.warm-up", "2"]
    found = {}
    arguments = ["train", "cmc-small", "--data.root", str(images), *SMALL_CMC, *flags]
    for strength, known in (("auto", ["--membership.known", "0.5"]), ("1", [])):
        main([*arguments, *known, "--membership.strength", strength, "--out", str(tmp_path / strength)])
        found[strength] = metrics(tmp_path / strength)
    chosen = strengths(found["auto"])[7]
    assert chosen != 1
    main([*arguments, "--membership.strength", repr(chosen), "--out", str(tmp_path / "chosen")])
    assert losses(metrics(tmp_path / "chosen")) == losses(found["auto"]) != losses(found["1"])


MISTAKES = {
    "groups without a file": (["--membership.source", "groups"], "groups needs a file with a group for every sample"),
    "a file without a source": (["--membership.file", "x.npy"], "membership.file is for the sources groups and guide"),
    "an unknown source": (["--membership.source", "oracle"], "--membership.source"),
    "biased": (["--membership.source", "own", "--objective.kind", "biased"], "a membership is for kind=debiased"),
    "unbiased": (["--membership.source", "own", "--objective.kind", "unbiased"], "a membership is for kind=debiased"),
    "known labels": (["--membership.source", "own", "--objective.known-labels", "0.5"], "known_labels has no effect"),
    "auto": (["--membership.source", "own", "--objective.auto"], "auto has no effect beside a membership"),
    "views": (["--membership.source", "own", "--objective.num-positives", "2"], "num_positives has no effect"),
    "late": (["--membership.source", "own"], "would begin after 10 epochs, the training ends after 4"),
    "a share": (["--membership.source", "labels", "--membership.known", "2"], "known must lie in [0, 1]; got 2"),
    "strength": (["--membership.source", "labels", "--membership.strength", "-1"], "strength must be at least 0"),
    "strength by a word": (["--membership.source", "labels", "--membership.strength", "best"], "--membership.strength"),
    "attraction": (["--membership.source", "labels", "--membership.attraction", "nan"], "attraction must be at least"),
    "refresh": (["--membership.source", "own", "--membership.refresh", "0"], "refresh must be an integer of at least 1"),
    "no labels": (["--membership.source", "labels", "--membership.known", "0"], "known must be above 0 for source labels"),
    "strength of nothing": (["--membership.strength", "0.5"], "membership.strength has no effect without a source; got 0.5"),
    "attraction to nobody": (["--membership.attraction", "0.5"], "membership.attraction has no effect without a source"),
    "unread labels": (["--membership.source", "guide", "--membership.known", "0.3"], "membership.known has no effect with source guide and a strength"),
    "above no attraction": (["--membership.source", "labels", "--membership.attraction-above", "0.3"], "has no effect without attraction"),
    "form of labels": (["--membership.source", "labels", "--membership.form", "walk"], "membership.form has no effect with source labels"),
    "no such file": (["--membership.source", "groups", "--membership.file", "missing.npy"], "missing.npy"),
    "too few rows": (["--membership.source", "groups", "--membership.file", "FEW"], "each of the 160 samples"),
    "no embeddings": (["--membership.source", "guide", "--membership.file", "FEW"], "each of the 160 samples"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_run(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few.csv").write_text("1\n2\n")
    flags, words = MISTAKES[mistake]
    with pytest.raises(SystemExit) as end:
        train(tmp_path / "run", *(str(tmp_path / "few.csv") if flag == "FEW" else flag for flag in flags))
    assert end.value.code == 2
    message = capsys.readouterr().err.splitlines()
    assert len(message) == 1
    assert words in message[0]
    assert not (tmp_path / "run").exists()


def test_labels_are_needed_where_they_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = two_colours(tmp_path / "images") / "red"
    arguments = ["train", "cmc-small", "--data.root", str(images), *SMALL_CMC, "--membership.source", "labels"]
    with pytest.raises(SystemExit):
        main([*arguments, "--out", str(tmp_path / "run")])
    assert "membership.source labels needs labels, such as class folders" in capsys.readouterr().err


def test_a_run_does_not_go_on_with_another_file(
    tmp_path: Path, files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.load(files["groups"][-1])
    np.save(tmp_path / "groups.npy", rows)
    train(tmp_path / "run", "--membership.source", "groups", "--membership.file", str(tmp_path / "groups.npy"))
    np.save(tmp_path / "groups.npy", rows[::-1])
    (tmp_path / "run" / "encoder.json").unlink()
    with pytest.raises(SystemExit):
        main(["resume", str(tmp_path / "run"), "--quiet"])
    assert "must go on with the data that it began with" in capsys.readouterr().err


def test_the_page_shows_what_it_was_worth(tmp_path: Path) -> None:
    for name, flags in (
        ("biased", ["--objective.kind", "biased"]),
        ("own", ["--membership.source", "own", *AUTO]),
    ):
        train(tmp_path / "runs" / name, *flags)
    main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    words = ("Force share of the membership", "Accuracy of the membership", "Effective number of negatives")
    assert all(word in page for word in (*words, "Strength of the membership", "membership from own features"))
    assert "strength auto with 40 % of the labels" in page


def test_a_run_is_named_by_its_source() -> None:
    plain = SimCLRSettings(preset="demo")
    known = SimCLRSettings(preset="demo", membership=ImageMembership("classifier"))
    assert (name_run(plain), name_run(known)) == ("demo-debiased-seed0", "demo-classifier-seed0")


def test_without_a_source_nothing_is_written_of_it() -> None:
    plain = SimCLRSettings()
    assert "membership" not in as_json(plain)
    assert read_settings(as_json(plain)) == plain
    known = SimCLRSettings(membership=ImageMembership("labels", known=0.25))
    assert as_json(known)["membership"]["known"] == 0.25
    assert read_settings(json.loads(json.dumps(as_json(known)))) == known
    auto = SimCLRSettings(membership=ImageMembership("own", strength="auto", warm_up=1))
    assert as_json(auto)["membership"]["strength"] == "auto"
    content = json.loads(json.dumps(as_json(auto)))
    assert read_settings(content) == auto
    content["membership"]["strength"] = "best"
    with pytest.raises(ValueError, match=r"membership\.strength must be"):
        read_settings(content)
    with pytest.raises(ValueError, match="strength must be at least 0 and finite, or auto; got best"):
        ImageMembership("own", strength="best")  # type: ignore[arg-type]
