"""What can be said to `debiased`: a class for each command, a field for each flag."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, Union

import tyro

from debiased_contrastive.control.presets import CONTROL_PRESETS, ControlPreset
from debiased_contrastive.control.settings import ControlSettings
from debiased_contrastive.images.presets import PRESETS, Preset
from debiased_contrastive.images.settings import Settings
from debiased_contrastive.text.presets import TEXT_PRESETS, TextPreset
from debiased_contrastive.text.settings import TextSettings

Quiet = Annotated[bool, tyro.conf.arg(help="No bars; one line about every tenth, for logs.", aliases=["-q"])]
RunFolder = Annotated[Path, tyro.conf.arg(help="A run directory.", metavar="RUN"), tyro.conf.Positional]


@dataclass(frozen=True)
class Demo:
    """Biased, debiased and unbiased on the data in the package: a table and a page. Or an agent that learns."""

    domain: Literal["images", "text", "control"] = "images"
    """A subset of Fashion-MNIST, sentences of six novels, or a pole to be balanced by what a camera sees."""
    seeds: int | None = None
    """How often everything is repeated, three times for text and once for the others if not given; from two on
    there are confidence intervals."""
    out: Path | None = None
    """Folder for the runs and report.html, runs/demo if not given, for text and control runs/demo-DOMAIN; runs
    that are there already are continued or kept."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {self.seeds}")


@dataclass(frozen=True)
class TrainOne:
    """Train one encoder with these settings."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    out: Path | None = None
    """The run directory; runs/PRESET-KIND-seedN if not given."""
    download: bool = False
    """Fetch the official archive to --data.root first, if it is not there."""
    tensorboard: bool = False
    """Also write curves for TensorBoard."""
    quiet: Quiet = False


@dataclass(frozen=True)
class TrainText:
    """Train one pair of towers with these settings."""

    settings: Annotated[TextSettings, tyro.conf.arg(name="")]
    corpus: Path | None = None
    """A text, one sentence a line, a blank line for a break; .tsv or .parquet; or a folder of such files. Without
    it: six novels of Jane Austen that come with the package."""
    out: Path | None = None
    """The run directory; runs/PRESET-KIND-seedN if not given."""
    tensorboard: bool = False
    """Also write curves for TensorBoard."""
    quiet: Quiet = False


@dataclass(frozen=True)
class TrainControl:
    """Train one agent with these settings."""

    settings: Annotated[ControlSettings, tyro.conf.arg(name="")]
    out: Path | None = None
    """The run directory; runs/PRESET-TASK-KIND-seedN if not given."""
    tensorboard: bool = False
    """Also write curves for TensorBoard."""
    quiet: Quiet = False


ALL_PRESETS: dict[str, Preset | TextPreset | ControlPreset] = {**PRESETS, **TEXT_PRESETS, **CONTROL_PRESETS}


@dataclass(frozen=True)
class Train:
    """Train an encoder or an agent from a preset, any of whose settings can be changed by a flag."""

    preset: Annotated[
        tyro.extras.subcommand_type_from_defaults(  # type: ignore[valid-type]
            {
                **{name: TrainOne(preset.settings) for name, preset in PRESETS.items()},
                **{name: TrainText(preset.settings) for name, preset in TEXT_PRESETS.items()},
                **{name: TrainControl(preset.settings) for name, preset in CONTROL_PRESETS.items()},
            },
            {name: preset.what for name, preset in ALL_PRESETS.items()},
            prefix_names=False,
        ),
        tyro.conf.arg(name=""),
    ]


@dataclass(frozen=True)
class Resume:
    """Continue a run from its newest whole checkpoint; it ends as if it had never stopped."""

    run: RunFolder
    data_root: Path | None = None
    """Where the images, or the text, are now, if they moved since."""
    tensorboard: bool = False
    """Also write curves for TensorBoard."""
    quiet: Quiet = False


Task: TypeAlias = Literal["all", "MR", "CR", "SUBJ", "MPQA", "TREC", "MSRP"]


@dataclass(frozen=True)
class Evaluate:
    """Probe the encoder of a finished run, or let its agent play; numbers go to the run directory."""

    run: RunFolder
    tasks: tuple[Task, ...] = ()
    """For a run on text: which of the six sentence tasks; all if not given."""
    task_data: Path | None = None
    """For a run on text: folder with the official files of the tasks; the variable DEBIASED_TASK_DATA if not
    given."""
    official: bool = False
    """Also train the probe of the released code, quirks included: many epochs on augmented images."""
    data_root: Path | None = None
    """Where the images are now, if they moved since."""
    test_root: Path | None = None
    """For a folder: where its test images are, if not said when training."""
    quiet: Quiet = False


@dataclass(frozen=True)
class Watch:
    """Film an episode of a trained agent, who does what it thinks best."""

    run: RunFolder
    out: Path = Path("film.mp4")
    """A file that ends in .mp4 or .gif."""
    size: int = 240
    """Side in pixels."""
    episode: int = 0
    """Which one: each begins elsewhere."""


@dataclass(frozen=True)
class Embed:
    """Features of any folder of images, one row each, in the order of their sorted names; or of sentences."""

    run: RunFolder
    out: Path
    """A .npy file for the features alone; for images also .npz, with features, names and labels."""
    images: Path | None = None
    """Folder of images, flat or with class folders; for a run on images."""
    sentences: Path | None = None
    """For a run on text: one sentence a line, where blank lines have no row; or a table, as for training."""
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if (self.images is None) == (self.sentences is None):
            raise ValueError("give --images for a run on images, or --sentences for a run on text; one of them")


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page of runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN"), tyro.conf.Positional]
    """Run directories, or folders of them."""
    out: Path = Path("report.html")
    title: str = "Debiased contrastive learning"


@dataclass(frozen=True)
class Data:
    """Folders of images. subset: some classes of a folder, such as ImageNet-100 of ImageNet, by links."""

    action: Annotated[Literal["subset"], tyro.conf.arg(metavar="subset"), tyro.conf.Positional]
    source: Annotated[Path, tyro.conf.arg(name="from", metavar="DIR")]
    """Class folders, or train and val with class folders each."""
    classes: Path
    """A file with the name of one class, its folder, a line."""
    out: Path | None = None
    """The folder to make; named as the file of classes, beside where you are, if not given."""


@dataclass(frozen=True)
class Presets:
    """The presets, what they train on and what that costs."""


@dataclass(frozen=True)
class Verify:
    """Check every lemma and theorem of the paper on worlds where expectations are exact; fails if one does."""

    out: Path = Path("runs/theory")
    """Folder for theory.json and the plots."""
    quiet: Quiet = False


@dataclass(frozen=True)
class Bounds:
    """What the theory promises for your setting, and where it promises nothing."""

    tau_plus: float
    """Probability that an unlabeled sample has the anchor's class."""
    num_unlabeled: int
    """N; 2(b - 1) for a batch of b in SimCLR."""
    num_positives: int = 1
    """M"""
    temperature: float = 0.5
    delta: float = 0.05
    """Chance that a promise that holds with high probability fails."""
    num_anchors: int | None = None
    """T, the number of training samples of Theorem 5; without end if not given."""
    rademacher: float = 0.0
    """R_S of the embeddings that training chooses among; 0 is the best case."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class Audit:
    """How much sampling bias embeddings have, which tau_plus to set, and why."""

    embeddings: Annotated[str, tyro.conf.arg(metavar="EMBEDDINGS"), tyro.conf.Positional]
    """One a row: .npy, .npz, .parquet or .safetensors of any size; FILE:NAME picks one array of several."""
    pairs: str | None = None
    """A positive for each row, a table of the same shape; or whole numbers (pairs, 2), the places of pairs."""
    labels: str | None = None
    """One for each row, -1 = unknown; also .txt or .csv with one a line."""
    temperature: float = 0.1
    """Of the loss that is trained with."""
    batch_size: int = 256
    """N + 1: the other rows of a batch are an anchor's unlabeled samples. For b images of two views, 2b - 1."""
    prior: float | None = None
    """The chance that two rows share a class, if it is known: 0.1 for ten classes of one size."""
    tau_plus: float | None = None
    """A setting whose effect you want to know."""
    out: Path | None = None
    """Also write a page with pictures, such as report.html."""
    json: bool = False
    """Print JSON instead of tables."""
    seed: int = 0
    """Of the rows that are drawn."""
    quiet: Quiet = False


Command: TypeAlias = Union[  # noqa: UP007
    Annotated[Demo, tyro.conf.subcommand("demo")],
    Annotated[Train, tyro.conf.subcommand("train")],
    Annotated[Resume, tyro.conf.subcommand("resume")],
    Annotated[Evaluate, tyro.conf.subcommand("evaluate")],
    Annotated[Watch, tyro.conf.subcommand("watch")],
    Annotated[Embed, tyro.conf.subcommand("embed")],
    Annotated[Report, tyro.conf.subcommand("report")],
    Annotated[Data, tyro.conf.subcommand("data")],
    Annotated[Presets, tyro.conf.subcommand("presets")],
    Annotated[Verify, tyro.conf.subcommand("verify")],
    Annotated[Bounds, tyro.conf.subcommand("bounds")],
    Annotated[Audit, tyro.conf.subcommand("audit")],
]

COMMANDS = (
    "demo", "train", "resume", "evaluate", "watch", "embed", "report", "data", "presets", "verify", "bounds",
    "audit",
)  # fmt: skip
