"""The command `debiased`: settings in, run directories and one page out."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union

try:
    import tyro
except ModuleNotFoundError:
    print("debiased: this command needs an extra: pip install 'debiased-contrastive[vision]'", file=sys.stderr)
    sys.exit(2)

from debiased_contrastive import __version__
from debiased_contrastive.experiments.control_presets import CONTROL_PRESETS, ControlPreset
from debiased_contrastive.experiments.control_settings import ControlSettings
from debiased_contrastive.experiments.presets import PRESETS, Preset
from debiased_contrastive.experiments.settings import Settings
from debiased_contrastive.experiments.text_presets import TEXT_PRESETS, TextPreset
from debiased_contrastive.experiments.text_settings import TextSettings
from debiased_contrastive.runs import existing_run

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
    """Also train the probe of the released code, quirks included; a hundred epochs on augmented images."""
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


_Command: TypeAlias = Union[  # noqa: UP007
    Annotated[Demo, tyro.conf.subcommand("demo")],
    Annotated[Train, tyro.conf.subcommand("train")],
    Annotated[Resume, tyro.conf.subcommand("resume")],
    Annotated[Evaluate, tyro.conf.subcommand("evaluate")],
    Annotated[Watch, tyro.conf.subcommand("watch")],
    Annotated[Embed, tyro.conf.subcommand("embed")],
    Annotated[Report, tyro.conf.subcommand("report")],
    Annotated[Presets, tyro.conf.subcommand("presets")],
    Annotated[Verify, tyro.conf.subcommand("verify")],
    Annotated[Bounds, tyro.conf.subcommand("bounds")],
    Annotated[Audit, tyro.conf.subcommand("audit")],
]

COMMANDS = (
    "demo", "train", "resume", "evaluate", "watch", "embed", "report", "presets", "verify", "bounds", "audit",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; bad input ends with one line and exit code 2, an interrupt with 130."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(__version__)
        return
    command, extra = _parsed(words), "vision"
    try:
        # Torch and its friends are loaded only when the flags are right.
        match command:
            case Verify() | Bounds():
                _theory(command)
            case Audit():
                _audit(command)
            case Demo() | Train() | Resume() | Evaluate() | Watch() | Embed():
                domain = _domain(command)
                extra = "vision" if domain == "images" else domain
                {"text": _text, "control": _control, "images": _images}[domain](command)
            case _:
                _images(command)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__):
            raise
        _fail(f"{error.name} is missing: pip install 'debiased-contrastive[{extra}]'")
    except (ValueError, OSError) as error:
        where = getattr(error, "filename", None)
        _fail(str(error) if where is None else f"{where}: {getattr(error, 'strerror', error)}")
    except KeyboardInterrupt:
        print("debiased: interrupted", file=sys.stderr)
        sys.exit(130)


def _theory(command: Any) -> None:
    from debiased_contrastive.commands import theory

    if isinstance(command, Verify):
        theory.verify(command.out, quiet=command.quiet)
    else:
        sizes = (command.tau_plus, command.num_unlabeled, command.num_positives)
        rest = (command.delta, command.num_anchors, command.rademacher)
        theory.bounds(*sizes, command.temperature, *rest, as_json=command.json)


def _audit(command: Audit) -> None:
    try:
        from debiased_contrastive.commands import audit
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is missing: pip install 'debiased-contrastive[prior]'") from error

    audit.audited(
        command.embeddings,
        {name: getattr(command, name) for name in audit.SETTINGS},
        command.out,
        as_json=command.json,
        quiet=command.quiet,
    )


def _domain(command: Demo | Train | Resume | Evaluate | Watch | Embed) -> str:
    """What a run learns from."""
    match command:
        case Demo():
            return command.domain
        case Train():
            named = {TrainText: "text", TrainControl: "control"}
            return named.get(type(command.preset), "images")
        case _:
            settings = existing_run(command.run).settings
            return "text" if "text" in settings else "control" if "camera" in settings else "images"


def _control(command: Any) -> None:
    from debiased_contrastive.commands import control as commands
    from debiased_contrastive.training.memory import keep_freed_memory

    keep_freed_memory()
    match command:
        case Demo():
            commands.demo(command.out or Path("runs/demo-control"), command.seeds or 1, quiet=command.quiet)
        case Train():
            one = command.preset
            commands.train(one.settings, one.out, tensorboard=one.tensorboard, quiet=one.quiet)
        case Resume():
            if command.data_root:
                raise ValueError(f"{command.run} is a run on control: it has no data, so leave --data-root out")
            run = existing_run(command.run)
            commands.resume(run, tensorboard=command.tensorboard, quiet=command.quiet)
        case Evaluate():
            if any((command.official, command.data_root, command.test_root, command.tasks, command.task_data)):
                raise ValueError(f"{command.run} is a run on control: evaluate takes nothing but RUN and --quiet")
            commands.evaluate(command.run, quiet=command.quiet)
        case Watch():
            commands.watch(command.run, command.out, command.size, command.episode)
        case Embed():
            raise ValueError(f"{command.run} is a run on control: there are features of images and sentences alone")


def _text(command: Any) -> None:
    from debiased_contrastive.commands import text as commands
    from debiased_contrastive.training.memory import keep_freed_memory

    keep_freed_memory()
    match command:
        case Demo():
            commands.demo(command.out or Path("runs/demo-text"), command.seeds or 3, quiet=command.quiet)
        case Train():
            one = command.preset
            commands.train(one.settings, one.corpus, one.out, tensorboard=one.tensorboard, quiet=one.quiet)
        case Resume():
            options = {"tensorboard": command.tensorboard, "quiet": command.quiet}
            commands.resume(existing_run(command.run), command.data_root, **options)
        case Evaluate():
            if command.official or command.data_root or command.test_root:
                raise ValueError(
                    f"{command.run} is a run on text: give --tasks and --task-data, nothing for images"
                )
            commands.evaluate(command.run, command.tasks, command.task_data, quiet=command.quiet)
        case Watch():
            raise ValueError(
                f"{command.run} is a run on text: there is an agent to watch in a run on control alone"
            )
        case Embed():
            if command.sentences is None:
                raise ValueError(f"{command.run} is a run on text: give --sentences FILE")
            commands.embed(command.run, command.sentences, command.out, quiet=command.quiet)


def _images(command: Any) -> None:
    from debiased_contrastive.commands import images as commands
    from debiased_contrastive.training.memory import keep_freed_memory

    keep_freed_memory()
    match command:
        case Demo():
            commands.demo(command.out or Path("runs/demo"), command.seeds or 1, quiet=command.quiet)
        case Train():
            one = command.preset
            commands.train(
                one.settings, one.out, download=one.download, tensorboard=one.tensorboard, quiet=one.quiet
            )
        case Resume():
            commands.resume(
                command.run, root=command.data_root, tensorboard=command.tensorboard, quiet=command.quiet
            )
        case Evaluate():
            if command.tasks or command.task_data:
                raise ValueError(f"{command.run} must be a run on text for --tasks and --task-data; it is not")
            roots = {"root": command.data_root, "test_root": command.test_root}
            commands.evaluate(command.run, roots, official=command.official, quiet=command.quiet)
        case Watch():
            raise ValueError(
                f"{command.run} is a run on images: there is an agent to watch in a run on control alone"
            )
        case Embed():
            if command.images is None:
                raise ValueError(f"{command.run} is a run on images: give --images DIR")
            commands.embed(command.run, command.images, command.out, quiet=command.quiet)
        case Report():
            commands.report(command.runs, command.out, command.title)
        case Presets():
            commands.presets()


def _parsed(words: list[str]) -> Any:
    """The command that the words name; tyro's boxed message becomes one line."""
    for place, choices in ((0, COMMANDS), (1, tuple(ALL_PRESETS) if words[:1] == ["train"] else ())):
        if choices and len(words) > place and not words[place].startswith("-") and words[place] not in choices:
            _fail(f"{words[place]!r} must be one of {', '.join(choices)}")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(_Command, prog="debiased", args=words, description=__doc__)
    except SystemExit as end:
        if not end.code:
            raise
        _fail(_one_line(said.getvalue()))


def _one_line(box: str) -> str:
    """The first paragraph below the title of a boxed message, and the flag that may have been meant."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    # Boxes are drawn with lines, or with dashes where the terminal has no such letters.
    lines = [re.sub(r"^-+$", "", line.strip("│╭╰╮╯─ ")) for line in text.splitlines()]
    paragraphs = " ".join(line or "\n" for line in lines[1:]).split("\n")
    words = next((part.strip() for part in paragraphs if part.strip()), "the command line could not be read")
    # What a settings class refuses it explains itself; where it stood in the parser is of no use.
    words = re.sub(r"^Error parsing [\w.-]*\w: (?!could)", "", words)
    meant = re.search(r"(?:Perhaps you meant|Similar arguments)\S*:?\s+(--\S+)", " ".join(paragraphs))
    return words + (f"; did you mean {meant[1]}?" if meant else "") + " See debiased --help"


def _fail(message: str) -> NoReturn:
    print(f"debiased: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
