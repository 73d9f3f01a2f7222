"""The commands of `debiased`: a class for each command, a field for each flag; docstrings are the help texts."""

import re
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tyro

from debiased_contrastive.domain import Domain, Preset

Quiet = Annotated[
    bool, tyro.conf.arg(help="Show no progress bars, but one line for every tenth of the work.", aliases=["-q"])
]
Logs = Annotated[
    tuple[Literal["csv", "tensorboard", "wandb", "mlflow"], ...],
    tyro.conf.arg(help="Also send metrics to these; metrics.jsonl is written in any case."),
]
RunFolder = Annotated[Path, tyro.conf.arg(help="The run directory.", metavar="RUN"), tyro.conf.Positional]


@dataclass(frozen=True)
class Demo:
    """Train, evaluate and compare a few objectives on data that come with the package."""

    domain: str = "images"
    """What to learn from: images (a part of Fashion-MNIST), text (sentences of six novels), or control (a pole to
    be balanced by what a camera sees)."""
    seeds: int | None = None
    """Number of repetitions, from two on with confidence intervals; if not given, 3 for text and 1 for the
    others."""
    out: Path | None = None
    """Folder for the runs and report.html; runs/demo if not given, for text and control runs/demo-DOMAIN. Runs that
    are there already are continued or kept."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {self.seeds}")


@dataclass(frozen=True)
class TrainPreset:
    """Train with the settings of a preset; its domain adds settings and flags."""

    config: Path | None = None
    """A JSON file with settings, the settings.json of a run or a part of one; flags on the command line win."""
    out: Path | None = None
    """The run directory; if not given, a folder of runs/ that is named after preset, objective and seed."""
    log: Logs = ()
    tensorboard: bool = False
    """The same as --log tensorboard."""
    quiet: Quiet = False


@dataclass(frozen=True)
class Train:
    """Train an encoder or an agent from a preset, any of whose settings can be changed by a flag."""


def preset_command(domain: Domain, preset: Preset[Any]) -> type[TrainPreset]:
    """The class whose fields are the flags of `debiased train` for a preset."""
    fields: list[Any] = [("settings", Annotated[type(preset.settings), tyro.conf.arg(name="")], preset.settings)]
    if domain.flags is not None:
        fields.append(("flags", Annotated[domain.flags, tyro.conf.arg(name="")], domain.flags()))
    return make_dataclass("TrainPreset", fields, bases=(TrainPreset,), frozen=True)


@dataclass(frozen=True)
class Resume:
    """Continue a run from its newest checkpoint; it ends as if it had never stopped."""

    run: RunFolder
    data_root: Path | None = None
    """Folder or file where the images or the text are now, if they moved."""
    log: Logs = ()
    tensorboard: bool = False
    """The same as --log tensorboard."""
    quiet: Quiet = False


Task: TypeAlias = Literal["all", "MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP"]


@dataclass(frozen=True)
class Evaluate:
    """Probe the encoder of a finished run, or let its agent play; numbers go to the run directory."""

    run: RunFolder
    tasks: tuple[Task, ...] = ()
    """For a run on text: names of the sentence tasks to evaluate on; all six if not given."""
    task_data: Path | None = None
    """For a run on text: folder with the official files of the tasks; if not given, the environment variable
    DEBIASED_TASK_DATA says it."""
    official: bool = False
    """Also train the linear probe exactly as the released code does: many epochs on augmented images."""
    data_root: Path | None = None
    """Folder where the images are now, if they moved."""
    test_root: Path | None = None
    """For a run on a folder of images: the folder of test images, if it was not given when training."""
    quiet: Quiet = False


@dataclass(frozen=True)
class Watch:
    """Film an episode of a trained agent that does not explore."""

    run: RunFolder
    out: Path = Path("film.mp4")
    """The film, a file that ends in .mp4 or .gif."""
    size: int = 240
    """Side of the film in pixels."""
    episode: int = 0
    """Number of the episode; each of them begins in another state."""


@dataclass(frozen=True)
class Embed:
    """Write the features of a folder of images, in the order of their sorted names, or of a file of sentences."""

    run: RunFolder
    out: Path
    """The file to write: .npy for the features alone, .npz for features with names and labels."""
    images: Path | None = None
    """For a run on images: a folder of images, or of class folders with images."""
    sentences: Path | None = None
    """For a run on text: a file with one sentence per line, where blank lines are skipped, or a table, as for
    training."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if (self.images is None) == (self.sentences is None):
            raise ValueError("give --images for a run on images, or --sentences for a run on text; one of them")


@dataclass(frozen=True)
class Export:
    """Write the encoder of a finished run for other programs."""

    run: RunFolder
    out: Path
    """The file of an ONNX graph, or the folder of sentence-transformers."""
    to: Literal["onnx", "sentence-transformers"] = "onnx"
    """onnx: a graph that onnxruntime computes the same features with. sentence-transformers, for a run on text: a
    folder that SentenceTransformer loads."""


@dataclass(frozen=True)
class Report:
    """Write one self-contained HTML page that compares runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
    """Run directories, or folders of them."""
    out: Path = Path("report.html")
    """The page to write."""
    title: str = "Debiased contrastive learning"
    """The heading of the page."""


@dataclass(frozen=True)
class Data:
    """Make a folder with links to some classes of another, such as ImageNet-100 from ImageNet."""

    action: Annotated[Literal["subset"], tyro.conf.arg(metavar="subset"), tyro.conf.Positional]
    source: Annotated[Path, tyro.conf.arg(name="from", metavar="DIR")]
    """A folder with class folders, or with train and val that hold class folders."""
    classes: Path
    """A file with the name of one class folder per line."""
    out: Path | None = None
    """The folder to make; if not given, it is named after the file of classes, in the current folder."""


@dataclass(frozen=True)
class Presets:
    """List the presets, what they train on and what that costs."""


@dataclass(frozen=True)
class Reproduce:
    """Run a figure or table of the paper, or a question that it leaves open; without a name, list them."""

    item: Annotated[str | None, tyro.conf.arg(metavar="NAME"), tyro.conf.Positional] = None
    """What to run, such as figure4c. Without it, all that there is, with cost and results."""
    scale: Literal["smoke", "small", "paper"] = "small"
    """Seconds on data in the package, some minutes a run on a core, or the published setting."""
    out: Path = Path("results")
    """Folder of the results, one folder in it for each item and scale. Results that are there are kept."""
    runs: Path = Path("build/reproduce")
    """Folder of the trainings, which are resumed where they were cut off; the workers of a cluster share it."""
    rows: tuple[str, ...] = ()
    """Names of the rows to run; all if not given. A wrong name lists them."""
    seeds: int | None = None
    """Number of seeds; that of the scale if not given."""
    workers: int | None = None
    """Number of processes, of one thread each; as many as there are cores if not given."""
    cluster: str | None = None
    """Run on a Dask cluster instead: the address of its scheduler, or local:K for K processes here."""
    epochs: int | None = None
    """Length of the runs, instead of the scale's."""
    data: Path | None = None
    """Folder of the images, or the text; for images the environment variable DEBIASED_DATA if not given."""
    task_data: Path | None = None
    """For table2: folder with the files of the sentence tasks."""
    task: str | None = None
    """For table3: a task of the DeepMind control suite; cartpole-swingup if not given."""
    frames: int | None = None
    """For table3: simulated frames of each run, instead of the scale's."""
    show: bool = False
    """Run nothing, and show the results that are there."""
    first_step: bool = False
    """Do one step of the first row, or of each of --rows, say what the whole would take, and keep nothing."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        for name in ("seeds", "workers", "epochs", "frames"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1; got {value}")
        given = {
            "--rows": self.rows, "--epochs": self.epochs, "--data": self.data, "--task-data": self.task_data,
            "--task": self.task, "--frames": self.frames, "--cluster": self.cluster, "--workers": self.workers,
            "--show": self.show, "--first-step": self.first_step,
        }  # fmt: skip
        if self.item is None and (idle := [flag for flag, value in given.items() if value]):
            raise ValueError(f"{idle[0]} is for one figure or table, got no name: put it before, such as figure4c")
        if self.show and self.first_step:
            raise ValueError("--show runs nothing and --first-step runs a step: leave one of them out")
        if self.cluster is not None and self.workers is not None:
            raise ValueError("--workers are processes here, --cluster has its own: leave one of them out")
        if self.cluster is not None and not re.fullmatch(r"local:[1-9]\d*|\w+://.+", self.cluster):
            raise ValueError(
                "--cluster must be local:K or the address of a Dask scheduler, such as tcp://host:8786; got "
                f"{self.cluster}"
            )


@dataclass(frozen=True)
class Verify:
    """Check every lemma and theorem of the paper where expectations are exact; exit with 1 if one fails."""

    out: Path = Path("runs/theory")
    """Folder for theory.json and the plots."""
    quiet: Quiet = False


@dataclass(frozen=True)
class Bounds:
    """Show what the theory guarantees for a setting, and where it guarantees nothing."""

    tau_plus: float
    """Probability that an unlabeled sample has the anchor's class."""
    num_unlabeled: int
    """Number N of unlabeled samples for each anchor; 2(b - 1) for a batch of b in SimCLR."""
    num_positives: int = 1
    """Number M of positive samples for each anchor."""
    temperature: float = 0.5
    """Temperature of the loss, which divides the similarities."""
    delta: float = 0.05
    """Probability with which a guarantee may fail, where it holds with high probability only."""
    num_anchors: int | None = None
    """Number T of training samples in Theorem 5; infinitely many if not given."""
    rademacher: float = 0.0
    """Rademacher complexity R_S of the embeddings that training chooses among; 0 is the best case."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class Audit:
    """Measure how much sampling bias embeddings have, and what would take it out of training."""

    embeddings: Annotated[str, tyro.conf.arg(metavar="EMBEDDINGS"), tyro.conf.Positional]
    """A file with one embedding per row, .npy, .npz, .parquet or .safetensors; FILE:NAME picks one array of
    several."""
    pairs: str | None = None
    """A file with a positive for each row, in the same shape; or with integers (pairs, 2), the row numbers of
    pairs."""
    labels: str | None = None
    """A file with a label for each row, -1 where it is unknown; also .txt or .csv with one per line."""
    temperature: float = 0.1
    """Temperature of the loss that the embeddings are trained with."""
    batch_size: int = 256
    """Rows in a batch, whose others are an anchor's unlabeled samples (N + 1); 2b - 1 for two views of b images."""
    prior: float | None = None
    """Probability that two rows share a class, if it is known: 0.1 for ten classes of equal size."""
    tau_plus: float | None = None
    """A value of tau_plus whose effect is shown."""
    guide: str | None = None
    """A file with an embedding of each row by another model; labels tell what it is worth."""
    groups: str | None = None
    """A file with one or several ids for each row, which rows may share: category, patient; -1 is unknown."""
    membership: str | None = None
    """A file with the probability of each class for each row, (rows, classes)."""
    out: Path | None = None
    """Also write an HTML page with plots, such as report.html."""
    json: bool = False
    """Print JSON instead of tables."""
    seed: int = 0
    """Seed of the rows that are drawn at random."""
    quiet: Quiet = False


COMMANDS: dict[str, type] = {
    "demo": Demo,
    "train": Train,
    "resume": Resume,
    "evaluate": Evaluate,
    "watch": Watch,
    "embed": Embed,
    "export": Export,
    "report": Report,
    "data": Data,
    "presets": Presets,
    "reproduce": Reproduce,
    "verify": Verify,
    "bounds": Bounds,
    "audit": Audit,
}
