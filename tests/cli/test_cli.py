"""The command line as a person meets it: one line for every mistake, whole runs on small settings."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from debiased_contrastive import __version__
from debiased_contrastive.cli.main import _parse, main
from debiased_contrastive.domain import Domain
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.text.task_files import TASK_COUNTS, TREC_CLASSES

SMALL = [
    "--data.per-class", "20", "--training.batch", "40", "--training.epochs", "2", "--training.knn-every", "1",
    "--training.log-every", "1", "--encoder.width", "4", "--encoder.hidden-dim", "16", "--encoder.out-dim", "8",
    "--training.accelerator", "cpu", "--quiet",
]  # fmt: skip


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str], domains: Sequence[Domain] = DOMAINS) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments, domains)
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trian", "'trian' must be one of demo, train, resume"),
        ("", "demo, train, resume, evaluate, watch, embed, export, report, data, presets, reproduce"),
        ("train nope", "'nope' must be one of demo, cifar10-small"),
        ("train demo --objective.tua-plus 0.1", "did you mean --objective.tau-plus?"),
        ("train demo --objective.tau-plus abc", "could not convert string to float: 'abc'"),
        ("train demo --objective.tau-plus 1.5", "tau_plus must lie in [0, 1); got 1.5"),
        ("train demo --objective.kind best", "Expected one of ('biased', 'debiased', 'unbiased')"),
        ("train demo --objective.num-positives 0", "num_positives must be at least 1; got 0"),
        ("train demo --training.batch 0", "batch must be an integer of at least 1; got 0"),
        ("train demo --training.batch 2001", "batch must lie between 2 and the number of samples, 2000; got 2001"),
        ("train demo --data.name cifar10 --data.root .", "holds no CIFAR-10"),
        ("train demo --training.accelerator gpu", "accelerator=gpu does not work here"),
        ("train demo --views.blur-kernel 61", "blur_kernel must be smaller than twice the size; got 61 for 28"),
        ("train demo --views.scale 0.5 0.1", "scale must be two numbers, 0 < low <= high; got 0.5 and 0.1"),
        ("train demo --views.std 0", "std positive"),
        ("train demo --views.mean 0.1 0.2 --views.std 0.1 0.2", "one value per channel, 1 here; got 2"),
        ("train demo --download", "--download is for cifar10 and stl10; got fashion"),
        (
            "train cifar10",
            "cifar10 needs to know where its images are: pass --data.root DIR, or set DEBIASED_DATA",
        ),
        ("train cifar10 --data.root nowhere", "nowhere holds no CIFAR-10"),
        ("bounds --tau-plus 1 --num-unlabeled 10", "tau_plus must lie in [0, 1); got 1.0"),
        ("bounds --tau-plus 0.1 --num-unlabeled 0", "num_unlabeled must lie between 1 and 1e18; got 0"),
        ("bounds --tau-plus 0.1 --num-unlabeled 9 --temperature 0.004", "temperature must be finite and at least"),
        ("bounds --tau-plus 0.1 --num-unlabeled 9 --num-anchors 0", "num_anchors be at least 1"),
        ("bounds --num-unlabeled 9", "--tau-plus"),
        ("train quickthoughts-small --corpus nowhere.txt", "nowhere.txt must be a file or a folder of text"),
        (
            "train quickthoughts-small --objective.floor none",
            "Expected one of ('zero', 'bound', 'small', 'relative', 'biased', 'cap_tau')",
        ),
        (
            "train quickthoughts-small --corpus a.txt --text.path b.txt",
            "give --corpus or --text.path, which are the",
        ),
        ("train quickthoughts-small --towers.words nowhere.txt", "nowhere.txt: No such file or directory"),
        ("embed nowhere --out x.npy", "give --images for a run on images, or --sentences for a run on text"),
        ("audit nowhere.npy", "nowhere.npy: No such file or directory"),
        ("audit .", "is a folder; expected a file that ends in one of .npy"),
        ("audit", "EMBEDDINGS"),
        ("audit z.npy --temprature 1", "did you mean --temperature?"),
        ("audit z.npy --temperature 0", "temperature must be finite and at least 0.001; got 0.0"),
        ("audit z.npy --batch-size 1", "batch_size must be a whole number of at least 2"),
        ("audit z.npy --out .", ". must be a file to write to; it is a folder: name a file in it"),
        ("audit z.npy --seed -1", "seed must be a whole number of at least 0 and below 2^32; got -1"),
        ("train folder --data.root nowhere", "nowhere is not a folder"),
        ("demo --seeds 0", "seeds must be at least 1; got 0"),
        ("train cmc-small --views.space rgb", "Expected one of ('lab', 'ycbcr')"),
        ("train cmc-small --objective.kind unbiased", "Expected one of ('biased', 'debiased')"),
        ("data subset --from nowhere --classes none.txt", "none.txt: No such file"),
        ("resume nowhere", "nowhere holds no run: expected settings.json in it"),
        ("evaluate nowhere", "nowhere holds no run"),
        ("embed nowhere --images . --out x.npy", "nowhere holds no run"),
        ("report nowhere", "nowhere is no run and holds none"),
        ("report", "a report needs at least one readable run; got none"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    arguments: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBIASED_DATA", raising=False)
    line = error_of(arguments.split(), capsys)
    assert line.startswith("debiased: ")
    assert words in line
    assert not (tmp_path / "runs").exists()


def test_train_evaluate_embed_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "demo", *SMALL, "--tensorboard"])
    capsys.readouterr()
    run = tmp_path / "runs/demo-debiased-seed0"
    assert "demo-debiased-seed0 holds a run already" in error_of(["train", "demo", *SMALL], capsys)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 11))
    for name in ("loss", "floored", "tau_cap_median", "learning_rate", "images_per_second", "false_negative_rate"):
        assert all(isinstance(line[name], float) for line in lines), name
    assert 0 <= lines[-1]["knn"] <= 1
    assert list((run / "tensorboard").iterdir())
    main(["evaluate", str(run), "--quiet"])
    capsys.readouterr()
    found = json.loads((run / "evaluation.json").read_text())
    assert found["linear"]["top1"] > 0.2  # ten classes
    assert {"knn", "mean_classifier", "alignment", "uniformity"} <= found.keys()
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(3):
        Image.fromarray(np.full((30, 20), 80 * k, np.uint8)).save(folder / f"{k}.png")
    main(["embed", str(run), "--images", str(folder), "--out", "z.npy", "--quiet"])
    assert np.load("z.npy").shape == (3, 32)
    capsys.readouterr()
    assert "--out must end in .npy or .npz; got x.txt" in error_of(
        ["embed", str(run), "--images", str(folder), "--out", "x.txt"], capsys
    )
    assert "is a run on images: evaluate takes --official, --data-root, --test-root there; got --tasks" in error_of(
        ["evaluate", str(run), "--tasks", "MR"], capsys
    )
    (run / "evaluation.json").write_text(json.dumps({**found, "official": {"last_top1": 0.5}}))
    main(["evaluate", str(run), "--quiet"])  # a probe that took hours is not thrown away
    assert json.loads((run / "evaluation.json").read_text())["official"] == {"last_top1": 0.5}
    main(["report", ".", "--title", "<b>"])  # runs at any depth
    assert "&lt;b&gt;" in (tmp_path / "report.html").read_text()
    assert "debiased" in capsys.readouterr().out
    main(["resume", str(run), "--quiet"])
    assert "is finished" in capsys.readouterr().err


def test_train_and_embed_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"the {noun} {verb}s" for noun in ("cat", "dog", "hen", "fox") * 5 for verb in ("run", "sit", "eat")]
    Path("text.txt").write_text("\n".join(lines) + "\n")
    main(["train", "quickthoughts-small", "--corpus", "text.txt", "--training.batch", "20", "--towers.word-dim", "8",
          "--towers.hidden-dim", "4", "--training.epochs", "1", "--training.accelerator", "cpu", "--quiet"])  # fmt: skip
    run = tmp_path / "runs/quickthoughts-small-debiased-seed0"
    assert "trained; next" in capsys.readouterr().err
    main(["embed", str(run), "--sentences", "text.txt", "--out", "z.npy", "--quiet"])
    assert np.load("z.npy").shape == (60, 16)
    capsys.readouterr()
    assert "is a run on text: give --sentences" in error_of(
        ["embed", str(run), "--images", ".", "--out", "z.npy"], capsys
    )
    assert "--out must end in .npy" in error_of(
        ["embed", str(run), "--sentences", "text.txt", "--out", "z.txt"], capsys
    )
    main(["resume", str(run), "--quiet"])
    assert "is finished" in capsys.readouterr().err
    monkeypatch.delenv("DEBIASED_TASK_DATA", raising=False)
    assert "give --task-data, the folder" in error_of(["evaluate", str(run)], capsys)
    assert "MR is missing: expected rt-polarity.pos" in error_of(["evaluate", str(run), "--task-data", "."], capsys)
    assert "is a run on text: evaluate takes --tasks, --task-data there; got --official" in error_of(
        ["evaluate", str(run), "--official"], capsys
    )
    Path("text.txt").write_text("\n \n")
    assert "text.txt must hold at least one sentence" in error_of(
        ["embed", str(run), "--sentences", "text.txt", "--out", "z.npy"], capsys
    )
    nowhere = ["embed", "nowhere", "--sentences", "text.txt", "--out", "z.npy"]
    assert "nowhere holds no run" in error_of(nowhere, capsys)
    # A finished run says so wherever its text is.
    Path("text.txt").unlink()
    main(["resume", str(run), "--quiet"])
    assert "is finished" in capsys.readouterr().err


def test_evaluate_a_run_on_some_tasks_and_then_on_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = write_tasks(tmp_path / "tasks", monkeypatch)
    main(["train", "quickthoughts-small", "--training.batch", "200", "--towers.word-dim", "8", "--text.cache", ".",
          "--towers.hidden-dim", "4", "--training.accelerator", "cpu", "--quiet", "--out", "run"])  # fmt: skip
    capsys.readouterr()
    main(["evaluate", "run", "--tasks", "MSRP", "CR", "--task-data", str(tasks), "--quiet"])
    table = capsys.readouterr().out
    assert "MSRP F1" in table
    assert "MPQA" not in table
    main(["report", "run"])
    assert "Accuracy is that on the sentence task CR of logistic regression" in Path("report.html").read_text()
    capsys.readouterr()
    monkeypatch.setenv("DEBIASED_TASK_DATA", str(tasks))
    main(["evaluate", "run", "--tasks", "all", "--quiet"])
    assert "Six tasks" in capsys.readouterr().out
    main(["evaluate", "run", "--tasks", "CR", "--quiet"])
    assert "Six tasks" in capsys.readouterr().out, "what was scored before is kept"
    found = json.loads(Path("run/evaluation.json").read_text())["tasks"]
    assert set(found) == {"MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP"}
    assert len(found["MR"]["folds"]) == len(found["MR"]["C"]) == 10
    main(["report", "run"])
    assert "SUBJ and MPQA look exchanged" in Path("report.html").read_text()


def write_tasks(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The six tasks under their official names, small and easy."""
    root.mkdir()
    good, bad = ([f"a {word} thing number {place}\n" for place in range(30)] for word in ("happy", "sad"))
    two = ("rt-polarity.pos rt-polarity.neg", "custrev.pos custrev.neg", "mpqa.pos mpqa.neg")
    for names in (*two, "subj.objective subj.subjective"):
        for name, lines in zip(names.split(), (good, bad), strict=True):
            (root / name).write_text("".join(lines))
    asked = "".join(f"{kind}:x {kind} of {place} ?\n" for place in range(5) for kind in TREC_CLASSES)
    pairs = "".join(f"{place % 2}\t1\t2\tthe cat {place}\tthe {['dog', 'cat'][place % 2]}\n" for place in range(30))
    for name in ("train_5500.label", "TREC_10.label"):
        (root / name).write_text(asked)
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        (root / name).write_text(f"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n{pairs}")
    for name in TASK_COUNTS:
        monkeypatch.setitem(TASK_COUNTS, name, (30, 30))
    return root


def test_audit_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 4, 300)
    z0 = 3 * np.eye(4, 16)[labels] + generator.standard_normal((300, 16))
    np.savez("views.npz", z0=z0, z1=z0 + 0.1 * generator.standard_normal((300, 16)))
    Path("labels.txt").write_text("\n".join(f"class [{label}]" for label in labels) + "\n")
    main(["audit", "views.npz:z0", "--labels", "labels.txt", "--temperature", "0.2", "--batch-size", "64",
          "--tau-plus", "0.1", "--out", "report.html"])  # fmt: skip
    captured = capsys.readouterr()
    assert "its force share is 0" in " ".join(captured.out.split())
    assert "What would change the force" in captured.out
    assert "class [0]" in captured.out
    assert "page in report.html" in captured.out
    assert "Sampling bias in views.npz:z0" in Path("report.html").read_text()
    np.save("ids.npy", labels)
    np.save("membership.npy", np.eye(4)[labels])
    main(["audit", "views.npz:z0", "--labels", "labels.txt", "--guide", "views.npz:z1", "--groups", "ids.npy",
          "--membership", "membership.npy", "--json", "--quiet"])  # fmt: skip
    sources = {each["name"]: each for each in json.loads(capsys.readouterr().out)["sources"]}
    assert [*sources][:5] == ["guide, consensus", "guide, walk", "groups", "membership", "own clusters"]
    assert sources["groups"]["share"] == pytest.approx(1)
    main(["audit", "views.npz:z0", "--prior", "0.25", "--json", "--quiet"])
    found = json.loads(capsys.readouterr().out)
    assert found["prior"]["value"] == 0.25
    assert "views.npz must hold 'z9'; it holds z0, z1" in error_of(["audit", "views.npz:z9"], capsys)
    z0[7, 3] = np.nan
    np.save("bad.npy", z0)
    with pytest.raises(SystemExit) as end:
        main(["audit", "bad.npy", "--quiet"])
    assert end.value.code == 2
    # Reading takes its time, so what is wrong with a row may come after lines of progress.
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("debiased: bad.npy must hold finite rows that are not zero; got 1 of 300")


def test_embed_keeps_names_and_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "images"
    generator = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for k in range(10):
            pixels = generator.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / label / f"{k}.png")
    run = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    settings = ["--data.root", "images", "--data.test-root", "images", "--data.folder-size", "16",
                "--views.size", "16", "--training.batch", "10", "--training.epochs", "1", "--training.warm-up", "0",
                "--encoder.name", "small", "--encoder.width", "4", "--encoder.hidden-dim", "8",
                "--encoder.out-dim", "4", "--training.accelerator", "cpu", "--quiet"]  # fmt: skip
    main(["train", "folder", *settings, "--out", str(run)])
    # From elsewhere the images are still found.
    monkeypatch.chdir(run)
    main(["evaluate", str(run), "--quiet"])
    main(["embed", str(run), "--images", str(root), "--out", str(tmp_path / "z.npz"), "--quiet"])
    with np.load(tmp_path / "z.npz", allow_pickle=False) as found:
        assert found["features"].shape == (20, 32)
        assert found["names"][[0, 19]].tolist() == ["cat/0.png", "dog/9.png"]
        assert found["labels"].tolist() == [0] * 10 + [1] * 10
        assert found["class_names"].tolist() == ["cat", "dog"]
        features = found["features"]
    main(["embed", str(run), "--images", str(root), "--out", str(tmp_path / "z.npy"), "--quiet"])
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), features)
    assert "20 rows of 32 features" in capsys.readouterr().out


def test_every_command_in_the_documents_parses() -> None:
    root = Path(__file__).parents[2]
    texts = [path.read_text() for path in (root / "README.md", *(root / "docs").glob("*.md"))]
    blocks = [block for text in texts for block in re.findall(r"```bash\n(.*?)```", text, re.S)]
    commands = re.findall(r"^(?:debiased|torchrun .*cli) .*$", "\n".join(blocks), re.M)
    assert len(commands) >= 9
    for line in commands:
        # The file that --config names is not there.
        words = shlex.split(re.sub(r"--config \S+", "", line), comments=True)
        start = words.index("debiased_contrastive.cli") + 1 if "torchrun" in words else 1
        _parse(words[start:], DOMAINS)


def test_presets_prints_every_one_with_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    main(["presets"])
    out = capsys.readouterr().out
    for name in PRESETS:
        assert f" {name} " in out
    assert "8.6 h" in out  # CIFAR10 at 10 TFLOP/s: 400 epochs x 49,920 images x 2 views x 3 passes x 2.6 GFLOP


def test_version_and_help_come_without_training_code() -> None:
    script = "import sys; from debiased_contrastive.cli.main import _parse, main; main(['--version']); print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [__version__, "False"]


@pytest.mark.parametrize(
    "words",
    ["--help", "--version", "train --help", "train demo --help", "train curl --help", "evaluate --help", "trian",
     "train demo --training.epohcs 3", "train demo --training.epochs 0", "reproduce", "reproduce --help", "reproduce figure9",
     "reproduce figure4c --seeds 0"],
)  # fmt: skip
def test_help_and_mistakes_load_no_torch(words: str, tmp_path: Path) -> None:
    script = (
        "import sys; from debiased_contrastive.cli.main import main\n"
        f"try: main({words.split()!r})\nexcept SystemExit: pass\n"
        "print({'torch', 'lightning_fabric', 'matplotlib'} & set(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stderr.splitlines()[-1] == "set()"
