"""Images of a Hugging Face data set on disk, as `save_to_disk` of the library `datasets` writes it."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from debiased_contrastive.images.from_dataset import DatasetImages, read_samples
from debiased_contrastive.images.image_files import decode_image
from debiased_contrastive.images.images import Images


@dataclass(frozen=True)
class _Rows:
    """The rows of a split; an object of its own, so that it can be sent to workers."""

    table: Any
    column: str
    labels: npt.NDArray[np.int64]
    size: int
    name: str

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> Tensor:
        return torch.from_numpy(self.sample(place)[0])

    def sample(self, place: int) -> tuple[npt.NDArray[np.uint8], int]:
        """The pixels (3, size, size) and the label of a row."""
        image = decode_image(io.BytesIO(self.content(place)), self.size, f"{self.name}, row {place},")
        return image.transpose(2, 0, 1).copy(), int(self.labels[place])

    def content(self, place: int) -> bytes:
        """The bytes of the image's file."""
        stored = self.table[place][self.column] or {}
        content: bytes | None = stored.get("bytes")
        if content is None and stored.get("path") is not None:
            content = Path(stored["path"]).read_bytes()
        if content is None:
            raise ValueError(f"{self.name}, row {place}, holds no image: remove the row")
        return content


def read_hugging_face(
    root: Path,
    split: str,
    *,
    size: int,
    image_column: str = "image",
    label_column: str | None = "label",
    in_memory_bytes: int = 4 * 2**30,
    workers: int = 0,
) -> Images | DatasetImages:
    """Read a split, each image as RGB, its short side scaled to `size` and its centre cropped to a square.

    Args:
        root: The folder that `save_to_disk` wrote.
        split: Name of the split.
        size: Side of the images in pixels.
        image_column: The column of images.
        label_column: The column of labels, class labels, whole numbers or words; None reads none.
        in_memory_bytes: Images that take at most so much are decoded at once and kept.
        workers: Processes that decode others; 0 is this process.
    """
    table, name = _open(root, split), f"{root}, split {split}"
    for column in (image_column, label_column):
        if column is not None and column not in table.column_names:
            raise ValueError(
                f"{name}, must have the column {column}; it has {', '.join(table.column_names)}: name it with "
                "--data.image-column and --data.label-column, which may be None"
            )
    image = table.features[image_column]
    if type(image).__name__ != "Image":
        raise ValueError(f"{name}: the column {image_column} must hold images; it holds {image}")
    labels, names = _read_labels(table, label_column, name)
    # Not decoded by the library, which would try every format that is installed.
    table = table.select_columns([image_column]).cast_column(image_column, type(image)(decode=False))
    rows = _Rows(table, image_column, labels, size, name)
    if not len(rows):
        raise ValueError(f"{name}, must have a row; it has none")
    return read_samples(rows, names, in_memory_bytes, workers, rows.content)


def _open(root: Path, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise ValueError("data.name hf needs datasets: pip install 'debiased-contrastive[datasets]'") from None
    try:
        found = datasets.load_from_disk(str(root))
    # The library raises whatever it meets in the files.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{root} must be a folder that save_to_disk wrote ({reason})") from None
    if not isinstance(found, datasets.DatasetDict):
        raise ValueError(
            f"{root} must hold splits; it is a single data set: save a DatasetDict with train and test"
        )
    if split not in found:
        raise ValueError(
            f"{root} must have the split {split}; it has {', '.join(found)}: name it with --data.train-split and "
            "--data.test-split"
        )
    return found[split]


def _read_labels(table: Any, column: str | None, name: str) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """The labels, -1 where a row has none, and the names of the classes."""
    if column is None:
        return np.full(len(table), -1), ()
    values, feature = list(table[column]), table.features[column]
    if all(isinstance(value, str) for value in values):
        names = tuple(sorted(set(values)))
        places = {word: place for place, word in enumerate(names)}
        return np.array([places[value] for value in values], np.int64), names
    if not all(value is None or isinstance(value, int) for value in values):
        raise ValueError(f"{name}: the column {column} must hold whole numbers or words; it holds {feature}")
    labels = np.array([-1 if value is None else value for value in values], np.int64)
    return labels, tuple(getattr(feature, "names", None) or ())
