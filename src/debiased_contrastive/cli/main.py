"""The command `debiased`: settings in, run directories and one page out."""

import contextlib
import gc
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

try:
    import tyro
except ModuleNotFoundError:
    print("debiased: this command needs an extra: pip install 'debiased-contrastive[vision]'", file=sys.stderr)
    sys.exit(2)

from debiased_contrastive import __version__
from debiased_contrastive.cli.commands import (
    ALL_PRESETS,
    COMMANDS,
    Audit,
    Bounds,
    Command,
    Data,
    Demo,
    Embed,
    Evaluate,
    Presets,
    Report,
    Resume,
    Train,
    TrainControl,
    TrainText,
    Verify,
    Watch,
)
from debiased_contrastive.cli.terminal import (
    explain_lost_process,
    explain_memory,
    finish_output,
    forget_output,
    is_output_closed,
    prepare_streams,
    say,
    show,
)
from debiased_contrastive.runs import existing_run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; bad input ends with one line and exit code 2, an interrupt with 130."""
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    extra = "vision"
    try:
        if words in (["--version"], ["-V"]):
            show(__version__)
            finish_output()
            return
        command = _parsed(words)
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
        finish_output()
        _leave_group()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("debiased_contrastive"):
            raise
        _fail(f"{error.name} is missing: pip install 'debiased-contrastive[{extra}]'")
    except ValueError as error:
        _fail(str(error))
    except OSError as error:
        _fail_to_write(error)
    except (MemoryError, OverflowError, RuntimeError) as error:
        reason = explain_memory(error) or (explain_lost_process(error) if _is_one_of_several() else None)
        if reason is None:
            raise
        _fail(reason)
    except KeyboardInterrupt:
        print("debiased: interrupted", file=sys.stderr)
        sys.exit(130)


def _fail_to_write(error: OSError) -> NoReturn:
    """End with what could not be read or written; without a word where nobody reads the output any more."""
    if isinstance(error, BrokenPipeError) and is_output_closed():
        forget_output()
        sys.exit(1)
    if error.filename is not None:
        _fail(f"{error.filename}: {error.strerror}")
    # A message of our own, or one of the system, which knows no name.
    is_own = error.errno is None
    _fail(str(error) if is_own else f"a file could not be read or written ({error.strerror}); whole ones are safe")


def _leave_group() -> None:
    """Part from the other processes of torchrun: gloo's threads would abort a process that ends with them."""
    if _is_one_of_several():
        # What still refers to the group must go first.
        gc.collect()
        distributed = sys.modules["torch"].distributed
        distributed.barrier()
        distributed.destroy_process_group()


def _is_one_of_several() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def _theory(command: Any) -> None:
    from debiased_contrastive.cli import theory

    if isinstance(command, Verify):
        theory.verify(command.out, quiet=command.quiet)
    else:
        sizes = (command.tau_plus, command.num_unlabeled, command.num_positives)
        rest = (command.delta, command.num_anchors, command.rademacher)
        theory.bounds(*sizes, command.temperature, *rest, as_json=command.json)


def _audit(command: Audit) -> None:
    try:
        from debiased_contrastive.cli import audit
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
    from debiased_contrastive.cli import control as commands
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
    from debiased_contrastive.cli import text as commands
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
    from debiased_contrastive.cli import images as commands
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
        case Data():
            commands.subset(command.source, command.classes, command.out)
        case Presets():
            commands.presets()


def _parsed(words: list[str]) -> Any:
    """The command that the words name; tyro's boxed message becomes one line."""
    for before, word in pairwise(["", *words]):
        # As a path, nothing is the folder where you are.
        flag = word[:-1] if re.fullmatch(r"--[\w.-]+=", word) else before if not word else ""
        if (flag or not word) and flag != "--title":
            _fail(f"{flag if flag.startswith('-') else 'an argument'} must have a value; got nothing")
    for place, choices in ((0, COMMANDS), (1, tuple(ALL_PRESETS) if words[:1] == ["train"] else ())):
        if choices and len(words) > place and not words[place].startswith("-") and words[place] not in choices:
            _fail(f"{words[place]!r} must be one of {', '.join(choices)}")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), _wide(words):
            return tyro.cli(Command, prog="debiased", args=words, description=__doc__)
    except SystemExit as end:
        if not end.code:
            raise
        _fail(_one_line(said.getvalue()))
    except ValueError as error:
        # Of settings that do not go together, which no single flag can be blamed for.
        _fail(str(error))


@contextlib.contextmanager
def _wide(words: list[str]) -> Iterator[None]:
    """Room for a message, which a narrow terminal would break within words; help keeps to the terminal."""
    before = os.environ.get("COLUMNS")
    if not {"-h", "--help"} & set(words):
        os.environ["COLUMNS"] = "1000"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS", None)
        os.environ.update({} if before is None else {"COLUMNS": before})


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
    say(f"debiased: {' '.join(message.split())}")
    if _is_one_of_several():
        # At once: there is nobody left to part from in order.
        sys.stdout.flush()
        os._exit(2)
    sys.exit(2)
