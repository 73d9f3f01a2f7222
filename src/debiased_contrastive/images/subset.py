"""Some classes of a folder of images, by links: ImageNet-100 out of ImageNet."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

SPLITS = ("train", "val")


def classes_in(file: Path) -> tuple[str, ...]:
    """The names in a file, one a line; blank lines and what follows a # do not count."""
    lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
    names = tuple(line for line in lines if line)
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise ValueError(
            f"{file} must have the name of one class a line, each once; got {len(names)} names"
            + (f", {', '.join(twice[:3])} more than once" if twice else "")
        )
    wrong = [name for name in names if Path(name).name != name or name in (".", "..")]
    if wrong:
        raise ValueError(f"{file} must have names of folders, such as n02869837; got {wrong[0]!r}")
    return names


def linked_subset(source: Path, classes: Sequence[str], out: Path) -> dict[str, int]:
    """Make a folder `out` with links to those class folders of `source`; the number of classes in each part.

    source: class folders, or `train` and `val` with class folders each. Nothing is copied.
    """
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is not a folder; expected class folders, or train and val with them")
    if out.exists():
        raise FileExistsError(f"{out} is there already: remove it, or choose another --out")
    parts = [split for split in SPLITS if (source / split).is_dir()] or [""]
    for part in parts:
        missing = [name for name in classes if not (source / part / name).is_dir()]
        if missing:
            raise FileNotFoundError(
                f"{source / part} must have a folder for each class; {len(missing)} of {len(classes)} are missing, "
                f"such as {missing[0]}: validation images that lie beside each other must be sorted by class first"
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all.
    made = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        for part in parts:
            (made / part).mkdir(parents=True)
            for name in classes:
                (made / part / name).symlink_to((source / part / name).resolve(), target_is_directory=True)
        made.rename(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return dict.fromkeys(parts, len(classes))
