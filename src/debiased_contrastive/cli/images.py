"""The commands that train on images, probe and report."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from lightning_fabric import Fabric

from debiased_contrastive.cli.compare import compare
from debiased_contrastive.cli.terminal import progress, show, table
from debiased_contrastive.cli.training import check_tensorboard, train_to_the_end
from debiased_contrastive.control.presets import CONTROL_PRESETS
from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.images.cost import SUSTAINED, image_count, operations
from debiased_contrastive.images.demo import demo_runs
from debiased_contrastive.images.download import fetch
from debiased_contrastive.images.evaluate import NOWHERE, evaluated, trained_encoder
from debiased_contrastive.images.features import check_features, features_of
from debiased_contrastive.images.folder import FolderImages, image_folder
from debiased_contrastive.images.images import Images
from debiased_contrastive.images.presets import PRESETS
from debiased_contrastive.images.run import checked_images, trained
from debiased_contrastive.images.settings import Settings, from_json
from debiased_contrastive.images.sources import moved, official_archive, root_of
from debiased_contrastive.images.subset import classes_in, linked_subset
from debiased_contrastive.report.page import write_report
from debiased_contrastive.runs import EVALUATION, SETTINGS, Run, check_is_free, existing_run, new_run
from debiased_contrastive.text.presets import TEXT_PRESETS
from debiased_contrastive.training.fit import device_of, fabric_of
from debiased_contrastive.training.settings import as_json, whole_path


def demo(folder: Path, seeds: int, *, quiet: bool) -> None:
    """Train, probe and compare the three objectives on the images in the package."""
    runs = []
    for run, settings in demo_runs(folder, seeds):
        fabric = fabric_of(settings.training)
        _train(settings, run, fabric, checked_images(settings, fabric), tensorboard=False, quiet=quiet)
        if not run.evaluation:
            _evaluate(run, official=False, quiet=quiet)
        runs.append(run)
    page = folder / "report.html"
    write_report(runs, page, title="What sampling bias does to Fashion-MNIST, and what debiasing repairs")
    compare(runs)
    show(f"\nopen {page}")


def train(settings: Settings, out: Path | None, *, download: bool, tensorboard: bool, quiet: bool) -> None:
    """Train a new run."""
    # Whole paths, so that the run can be continued from anywhere.
    roots = {"root": settings.data.root, "test_root": settings.data.test_root}
    settings = moved(settings, {name: whole_path(path) for name, path in roots.items()})
    folder = out or Path("runs") / f"{settings.preset}-{settings.objective.kind}-seed{settings.seed}"
    check_tensorboard(tensorboard)
    check_is_free(folder)
    fabric = fabric_of(settings.training)
    if download and fabric.is_global_zero:
        archive, root = official_archive(settings.data), root_of(settings.data)
        with progress(f"download {settings.data.name}", quiet=quiet) as bar:
            fetch(archive, root, bar.at)
    fabric.barrier()
    # What cannot be trained is told before a run directory is left behind.
    images = checked_images(settings, fabric)
    if fabric.is_global_zero:
        new_run(folder, as_json(settings))
    fabric.barrier()
    _train(settings, existing_run(folder), fabric, images, tensorboard=tensorboard, quiet=quiet)


def resume(folder: Path, *, root: Path | None, tensorboard: bool, quiet: bool) -> None:
    """Continue a run."""
    check_tensorboard(tensorboard)
    run = existing_run(folder)
    settings = moved(from_json(run.settings), {"root": root})
    fabric = fabric_of(settings.training)
    _train(settings, run, fabric, checked_images(settings, fabric), tensorboard=tensorboard, quiet=quiet)


def evaluate(folder: Path, roots: Mapping[str, Path | None], *, official: bool, quiet: bool) -> None:
    """Probe a run and show what was found."""
    run = existing_run(folder)
    check_can_be_written(run.folder / EVALUATION)
    _evaluate(run, official=official, quiet=quiet, roots=roots)
    compare([run])


def embed(folder: Path, source: Path, out: Path, *, quiet: bool) -> None:
    """Write the features of a folder of images."""
    if out.suffix not in (".npy", ".npz"):
        raise ValueError(f"--out must end in .npy or .npz; got {out}: .npz holds names and labels too")
    check_can_be_written(out)
    settings, encoder = trained_encoder(folder)
    device = device_of(settings.training.accelerator)
    encoder.to(device)
    data = settings.data
    # Never all in memory: rows are wanted in the order of the files, whose names are kept.
    found = image_folder(
        source, data.folder_size if data.name == "folder" else settings.views.size, in_memory_bytes=0
    )
    assert isinstance(found, FolderImages)
    with found, progress(f"embed {len(found)} images", quiet=quiet) as bar:
        features = features_of(encoder, found, settings.views, device, bar.at).numpy()
    check_features(features, source)
    names = [str(Path(path).relative_to(source)) for path in found.paths]
    labels = np.full(len(found), -1) if found.labels is None else found.labels.numpy()
    _save(out, features, names=np.array(names), labels=labels, class_names=np.array(found.class_names, dtype=str))
    show(f"{len(features)} rows of {features.shape[1]} features in {out}")


def report(folders: Sequence[Path], out: Path, title: str) -> None:
    """Write the page of some runs."""
    check_can_be_written(out)
    runs = _runs_in(folders)
    write_report(runs, out, title=title)
    compare(runs)
    show(f"\nopen {out}")


def subset(source: Path, classes: Path, out: Path | None) -> None:
    """Link some classes of a folder of images."""
    out = out or Path(classes.stem)
    made = linked_subset(source, classes_in(classes), out)
    show(", ".join(f"{count} classes in {out / part}" for part, count in made.items()))


def presets() -> None:
    """Show the presets with their cost."""
    lines = []
    for name, preset in PRESETS.items():
        settings = preset.settings
        count = image_count(settings)
        cost = operations(settings)
        lines.append([
            name,
            preset.what,
            "?" if count is None else f"{count:,}",
            str(settings.training.epochs),
            f"{cost:.1e}" if cost else "depends on the folder",
            _hours(cost / SUSTAINED) if cost else "?",
        ])  # fmt: skip
    for name, text in TEXT_PRESETS.items():
        lines.append([name, text.what, "?", str(text.settings.training.epochs), "depends on the text", "?"])
    for name, control in CONTROL_PRESETS.items():
        lines.append([name, control.what, f"{control.settings.training.frames:,}", "-", "depends on the task", "?"])
    table("Presets", ["name", "what", "samples", "epochs", "operations", "on a GPU"], lines)
    show(
        f"operations: encoder, forward and backward; on a GPU: at {SUSTAINED / 1e12:.0f} TFLOP/s sustained. "
        "debiased train NAME --help lists what can be changed."
    )


def _train(
    settings: Settings,
    run: Run,
    fabric: Fabric,
    images: Images | FolderImages,
    *,
    tensorboard: bool,
    quiet: bool,
) -> None:
    updates = trained(settings, run, fabric, images, tensorboard=tensorboard)
    what = f"{settings.objective.kind}, seed {settings.seed}"
    train_to_the_end(updates, run, fabric, what, "images", quiet=quiet)


def _evaluate(run: Run, *, official: bool, quiet: bool, roots: Mapping[str, Path | None] = NOWHERE) -> None:
    with progress(f"evaluate {run.folder.name}", quiet=quiet) as bar:
        parts = 5 if official else 4
        done = iter(range(parts + 1))
        evaluated(run, official=official, roots=roots, say=lambda what: bar.at(next(done), parts, what))
        bar.at(parts, parts)


def _runs_in(folders: Sequence[Path]) -> list[Run]:
    """The runs in the folders and anywhere below them."""
    runs: list[Run] = []
    for folder in folders:
        below = sorted(path.parent for path in folder.rglob(SETTINGS))
        if not below:
            raise FileNotFoundError(f"{folder} is no run and holds none: expected settings.json in it or below it")
        runs += map(existing_run, below)
    return runs


def _save(out: Path, features: npt.NDArray[Any], **rest: Any) -> None:
    """Write the features, with the rest where the format has room for it."""
    buffer = io.BytesIO()
    if out.suffix == ".npy":
        np.save(buffer, features)
    else:
        np.savez(buffer, features=features, **rest)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, buffer.getvalue())


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 3600 else f"{seconds:.0f} s"
