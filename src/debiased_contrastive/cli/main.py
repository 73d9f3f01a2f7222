"""The command `debiased`: train, evaluate and compare contrastive learning with and without debiasing."""

import contextlib
import gc
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NoReturn, Union

try:
    import tyro
except ModuleNotFoundError:
    print("debiased: this command needs an extra: pip install 'debiased-contrastive[vision]'", file=sys.stderr)
    sys.exit(2)

from debiased_contrastive import __version__
from debiased_contrastive.cli.commands import (
    COMMANDS,
    Audit,
    Bounds,
    Demo,
    Export,
    Reproduce,
    TrainPreset,
    Verify,
    preset_command,
)
from debiased_contrastive.cli.config import find_config, read_config
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
from debiased_contrastive.domain import Domain, Preset
from debiased_contrastive.domains import DOMAINS
from debiased_contrastive.reproduce.names import NAMES
from debiased_contrastive.runs import Run


def main(arguments: Sequence[str] | None = None, domains: Sequence[Domain] = DOMAINS) -> None:
    """Run one command; bad input ends with one line and exit code 2, an interrupt with 130.

    Args:
        arguments: The words of the command line; those of the process if not given.
        domains: What can be learnt from. Whoever has a domain of their own adds it here.
    """
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    command: Any = None
    try:
        if words in (["--version"], ["-V"]):
            show(__version__)
            finish_output()
            return
        command = _parse(words, domains)
        # Torch and its friends are loaded only when the flags are right.
        _run(command, words[0], domains)
        finish_output()
        _leave_group()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("debiased_contrastive"):
            raise
        _fail(f"{error.name} is missing: pip install 'debiased-contrastive[{_find_extra(command, domains)}]'")
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


def _run(command: Any, word: str, domains: Sequence[Domain]) -> None:
    if isinstance(command, Verify | Bounds | Audit):
        from debiased_contrastive.cli import analyses

        getattr(analyses, word)(command)
    elif isinstance(command, Reproduce):
        from debiased_contrastive.cli.reproduction import reproduce

        reproduce(command)
    elif isinstance(command, Export):
        from debiased_contrastive.cli.export import export

        export(command, domains)
    else:
        from debiased_contrastive.cli import actions

        getattr(actions, word)(command, domains)


def _find_extra(command: Any, domains: Sequence[Domain]) -> str:
    """Find the extra of the package that brings what a command needs."""
    if isinstance(command, Verify | Bounds | Audit):
        return "prior" if isinstance(command, Audit) else "theory"
    if isinstance(command, Reproduce) and command.cluster:
        return "cluster"
    name = command.domain if isinstance(command, Demo) else ""
    if isinstance(command, TrainPreset):
        name = next(one.name for one in domains if command.settings.preset in one.presets)  # type: ignore[attr-defined]
    if hasattr(command, "run"):
        name = Run(command.run).domain
    return next((domain.extra for domain in domains if domain.name == name), "vision")


def _fail_to_write(error: OSError) -> NoReturn:
    """End with a line on what could not be read or written; silently where nobody reads the output any more."""
    if isinstance(error, BrokenPipeError) and is_output_closed():
        forget_output()
        sys.exit(1)
    if error.filename is not None:
        _fail(f"{error.filename}: {error.strerror}")
    # An error of this package has no errno; one of the system has no name of a file here.
    is_own = error.errno is None
    _fail(str(error) if is_own else f"a file could not be read or written ({error.strerror}); whole ones are safe")


def _leave_group() -> None:
    """Leave the process group of torchrun: gloo's threads would abort a process that ends inside it."""
    if _is_one_of_several():
        # What still refers to the group must be freed first.
        gc.collect()
        distributed = sys.modules["torch"].distributed
        distributed.barrier()
        distributed.destroy_process_group()


def _is_one_of_several() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def _parse(words: list[str], domains: Sequence[Domain]) -> Any:
    """Parse the words of the command line; tyro's boxed message becomes one line."""
    for before, word in pairwise(["", *words]):
        # An empty path would be the current folder.
        flag = word[:-1] if re.fullmatch(r"--[\w.-]+=", word) else before if not word else ""
        if (flag or not word) and flag != "--title":
            _fail(f"{flag if flag.startswith('-') else 'an argument'} must have a value; got nothing")
    presets = {name: (domain, preset) for domain in domains for name, preset in domain.presets.items()}
    named = {"train": tuple(presets), "reproduce": NAMES}.get(words[0], ()) if words else ()
    for place, choices in ((0, tuple(COMMANDS)), (1, named)):
        if choices and len(words) > place and not words[place].startswith("-") and words[place] not in choices:
            _fail(f"{words[place]!r} must be one of {', '.join(choices)}")
    # Flags are made only for the preset that was named: for all of them, help would be slow.
    kind: Any = _choose(COMMANDS)
    used, description = 0, str(__doc__)
    if words and words[0] in COMMANDS:
        kind, used, description = COMMANDS[words[0]], 1, str(COMMANDS[words[0]].__doc__)
        if words[0] == "train":
            kind = _choose({name: _make_stub(preset.what) for name, (_, preset) in presets.items()})
            if len(words) > 1 and words[1] in presets:
                domain, preset = presets[words[1]]
                kind, used, description = _preset_command(words[1:], domain, preset, presets), 2, preset.what
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages), _widen_terminal(words):
            return tyro.cli(
                kind, prog=" ".join(["debiased", *words[:used]]), args=words[used:], description=description
            )
    except SystemExit as end:
        if not end.code:
            raise
        _fail(_shorten(messages.getvalue()))
    except ValueError as error:
        # Settings that do not go together are no single flag's fault.
        _fail(str(error))


def _preset_command(
    words: list[str], domain: Domain, preset: Preset[Any], presets: dict[str, tuple[Domain, Preset[Any]]]
) -> type[TrainPreset]:
    """The flags of a preset, whose defaults a file may have changed."""
    file = find_config(words)
    try:
        return preset_command(domain, preset if file is None else read_config(file, words, domain, presets))
    except (ValueError, FileNotFoundError) as error:
        _fail(str(error))


def _choose(kinds: dict[str, type]) -> Any:
    return Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items())]  # noqa: UP007


def _make_stub(what: str) -> type:
    return dataclass(type("Preset", (), {"__doc__": what}))


@contextlib.contextmanager
def _widen_terminal(words: list[str]) -> Iterator[None]:
    """Make room for a message, which a narrow terminal would break within words; help keeps to the terminal."""
    before = os.environ.get("COLUMNS")
    if not {"-h", "--help"} & set(words):
        os.environ["COLUMNS"] = "1000"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS", None)
        os.environ.update({} if before is None else {"COLUMNS": before})


def _shorten(box: str) -> str:
    """Take from a boxed message its first paragraph, and the flag that may have been meant."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", box)
    # Boxes are drawn with lines, or with dashes where the terminal has no such letters.
    lines = [re.sub(r"^-+$", "", line.strip("│╭╰╮╯─ ")) for line in text.splitlines()]
    paragraphs = " ".join(line or "\n" for line in lines[1:]).split("\n")
    words = next((part.strip() for part in paragraphs if part.strip()), "the command line could not be read")
    # A settings class explains itself what it refuses; the place in the parser is of no use.
    words = re.sub(r"^Error parsing [\w.-]*\w: (?!could|no type)", "", words)
    words = re.sub(
        r"^Error parsing (\S+): no type matching \{None\}\|(\w+) .* from \['(.*)'\]",
        r"\1 must be \2; got \3",
        words,
    )
    meant = re.search(r"(?:Perhaps you meant|Similar arguments)\S*:?\s+(--\S+)", " ".join(paragraphs))
    words = f"{words}; did you mean {meant[1]}?" if meant else words
    return f"{words}{'' if words.endswith(('.', '?')) else '.'} See debiased --help"


def _fail(message: str) -> NoReturn:
    say(f"debiased: {' '.join(message.split())}")
    if _is_one_of_several():
        # End at once: the other processes may be gone.
        sys.stdout.flush()
        os._exit(2)
    sys.exit(2)
