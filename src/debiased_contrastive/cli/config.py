"""Settings from a file: `debiased train PRESET --config settings.json`. Never imports torch."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from debiased_contrastive.domain import Domain, Preset
from debiased_contrastive.files import read_json
from debiased_contrastive.training.settings import with_json


def find_config(words: Sequence[str]) -> Path | None:
    """Find the file that the words of a command line name; of several, the last counts."""
    given = [after for flag, after in pairwise(words) if flag == "--config"]
    given += [word.removeprefix("--config=") for word in words if word.startswith("--config=")]
    return Path(given[-1]) if given else None


def read_config(
    file: Path, words: Sequence[str], domain: Domain, presets: Mapping[str, tuple[Domain, Preset[Any]]]
) -> Preset[Any]:
    """Change the preset that the words name as a file says, which is settings.json of a run or a part of one."""
    name, preset = words[0], presets[words[0]][1]
    if not file.exists():
        raise FileNotFoundError(
            f"--config must name a file of settings; {file} is missing: settings.json of a run is one"
        )
    content = read_json(file)
    if (other := content.pop("domain", domain.name)) != domain.name:
        raise ValueError(f"{file} must be of {domain.name}, as the preset {name} is; it is of {other}")
    is_whole = "preset" in content
    if (other := content.pop("preset", name)) != name and other in presets:
        raise ValueError(f"{file} must be of the preset {name}; it is of {other}: debiased train {other} --config")
    for item in fields(domain.flags) if domain.flags is not None else ():
        section, _, setting = item.metadata.get("replaces", "").partition(".")
        # A flag of another name wins too.
        if any(word.split("=")[0] == f"--{item.name}" for word in words) and isinstance(content.get(section), dict):
            content[section].pop(setting, None)
    return Preset(preset.what, with_json(preset.settings, content, str(file), old_names=is_whole))
