"""The reference of commands: every flag of `debiased`, read from the classes that the command line reads."""

import ast
import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tyro

from debiased_contrastive.cli.commands import COMMANDS, preset_command
from debiased_contrastive.domains import DOMAINS

WORDS = {Path: "PATH", str: "TEXT", int: "INT", float: "FLOAT"}


@dataclass(frozen=True)
class Flag:
    """One flag, or one word without a dash."""

    name: str
    value: str
    """What stands after it; empty for a switch."""
    default: str
    help: str


def read_flags(kind: type, instance: Any = None, prefix: str = "") -> Iterator[Flag]:
    """The flags of a class, those of settings inside it under a prefix; defaults are the instance's."""
    hints, helps = typing.get_type_hints(kind, include_extras=True), _helps(kind)
    for field in fields(kind):
        hint: Any = hints[field.name]
        marks: list[Any] = []
        if get_origin(hint) is Annotated:
            hint, *marks = get_args(hint)
        told = next((mark for mark in marks if hasattr(mark, "metavar")), None)
        default = _default(field) if instance is None else getattr(instance, field.name)
        name = field.name if told is None or told.name is None else told.name
        if tyro.conf.Suppress in marks or not field.init:
            continue
        if isinstance(hint, type) and is_dataclass(hint):
            inner = f"{prefix}{name}." if name else prefix
            yield from read_flags(hint, None if default is MISSING else default, inner)
            continue
        flag = f"{prefix}{name}".replace("_", "-")
        if tyro.conf.Positional in marks:
            flag = told.metavar if told is not None and told.metavar else name.upper()
        else:
            flag = f"--{flag}"
        text = told.help if told is not None and told.help else helps.get(field.name, "")
        value = "" if hint is bool else told.metavar if told is not None and told.metavar else _value(hint)
        if hint is bool and default is True:
            flag = f"--{prefix}no-{name}".replace("_", "-")
        yield Flag(flag, value, _show(default), text)


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _helps(kind: type) -> dict[str, str]:
    """The string below each field, of the class and of those that it extends."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if not is_dataclass(one):
            continue
        try:
            body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(one))).body
        except (OSError, TypeError):  # made at run time: its fields are those of others
            continue
        (node,) = (node for node in body if isinstance(node, ast.ClassDef))
        for field, below in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                assert isinstance(field.target, ast.Name)
                found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def _value(hint: Any) -> str:
    """What a flag takes, in words."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_value(one) for one in inside if one is not type(None))
    if origin is Annotated:
        return _value(inside[0])
    if origin is Literal:
        return " ".join(f"`{one}`" for one in inside)
    if origin is tuple:
        return f"{_value(inside[0])} ..." if inside[1:] == (...,) else " ".join(map(_value, inside))
    return WORDS[hint]


def _show(default: Any) -> str:
    if default is MISSING:
        return "required"
    if isinstance(default, tuple):
        return " ".join(map(_show, default)) or "-"
    if isinstance(default, float):
        return str(round(default, 6))
    return "-" if default is None or isinstance(default, bool) else str(default)


def _table(flags: Iterator[Flag]) -> list[str]:
    rows = ["| flag | takes | default | meaning |", "|---|---|---|---|"]
    for flag in flags:
        meaning = " ".join(flag.help.split()).replace("|", "\\|")
        rows.append(f"| `{flag.name}` | {flag.value or '-'} | {flag.default} | {meaning} |")
    return rows


def commands_page() -> str:
    """Every command with its flags, and every preset."""
    parts = [
        "# Commands",
        "",
        "Every flag of `debiased`. The same text comes from `debiased COMMAND --help`, and for a preset from",
        "`debiased train PRESET --help`. A switch takes no value; `--no-` turns it off.",
        "",
    ]
    for name, kind in COMMANDS.items():
        parts += [f"## debiased {name}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
        if name == "train":
            parts += _train()
        elif fields(kind):
            parts += [*_table(read_flags(kind)), ""]
    return "\n".join(parts)


def _train() -> list[str]:
    """The presets of each kind of settings, then their flags, once."""
    parts: list[str] = []
    for domain in DOMAINS:
        kinds = dict.fromkeys(type(preset.settings) for preset in domain.presets.values())
        for kind in kinds:
            presets = {name: one for name, one in domain.presets.items() if type(one.settings) is kind}
            first = next(iter(presets))
            parts += [f"### debiased train {' | '.join(presets)}", "", "| preset | what |", "|---|---|"]
            parts += [f"| `{name}` | {preset.what} |" for name, preset in presets.items()]
            command = preset_command(domain, presets[first])
            parts += ["", f"Defaults are those of `{first}`.", "", *_table(read_flags(command)), ""]
    return parts
