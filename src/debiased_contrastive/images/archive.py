"""Archives unpacked into one place and nowhere else."""

import gzip
import os
import tarfile
import zlib
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory


def extract(archive: Path, target: Path) -> None:
    """Unpack a tar.gz into the folder `target`, each entry at its top complete or not at all.

    An entry that is there already is replaced. Paths that lead out of `target`, links and devices are
    refused, and then nothing is unpacked.
    """
    target.mkdir(parents=True, exist_ok=True)
    # Inside `target`, so that the renames stay on one file system.
    with TemporaryDirectory(dir=target, prefix=".unpack-") as place:
        new, old = Path(place, "new"), Path(place, "old")
        new.mkdir()
        old.mkdir()
        try:
            _unpack(archive, new)
        except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(
                f"{archive} is damaged: {error}; delete it and download it again with --download"
            ) from error
        for entry in new.iterdir():
            if os.path.lexists(target / entry.name):
                (target / entry.name).rename(old / entry.name)
            entry.rename(target / entry.name)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "r:gz") as tar:
        if hasattr(tarfile, "data_filter"):  # absent before Python 3.10.12
            tar.extraction_filter = tarfile.data_filter
        for member in tar:
            # Windows paths know both separators and drives, so this holds everywhere.
            path = PureWindowsPath(member.name)
            if path.anchor or ".." in path.parts:
                raise ValueError(f"{archive}: refused, since {member.name!r} leads out of the folder")
            if not (member.isreg() or member.isdir()):
                raise ValueError(f"{archive}: refused, since {member.name!r} is neither a file nor a folder")
            tar.extract(member, folder, set_attrs=False)
