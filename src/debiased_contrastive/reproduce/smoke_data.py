"""Stand-ins made of what is in the package, for the smallest scale: coloured images, and sentence tasks."""

from itertools import pairwise
from pathlib import Path

from PIL import Image

from debiased_contrastive.images.datasets import read_fashion_mnist
from debiased_contrastive.text.sentences import read_austen
from debiased_contrastive.text.task_files import SentenceTask

CLASSES, PER_CLASS = 4, 24
SENTENCES = 40


def write_coloured_images(folder: Path) -> Path:
    """Write train and val, with a folder for each class: clothes in a colour that depends on the class."""
    images = read_fashion_mnist("train")
    assert images.labels is not None
    for label in range(CLASSES):
        own = images.pixels[images.labels == label][: 2 * PER_CLASS, 0]
        for place, pixels in enumerate(own.numpy()):
            part = folder / ("val" if place % 2 else "train") / f"class{label}"
            part.mkdir(parents=True, exist_ok=True)
            colours = (60 * label, 40 + place, 240 - 50 * label)
            grounds = [
                Image.fromarray(pixels).point(lambda value, add=add: min(255, value // 2 + add // 2))
                for add in colours
            ]
            Image.merge("RGB", grounds).save(part / f"{place}.png")
    return folder


def novel_tasks() -> tuple[SentenceTask, ...]:
    """Six tasks in the forms of the published ones: from which of two novels, and whether neighbours."""
    rows = read_austen()
    names = list(dict.fromkeys(book for book, _ in rows))
    by_book = [[sentence for book, sentence in rows if book == name] for name in names]
    tasks = []
    for name, (one, other) in zip(("MR", "CR", "SUBJ", "MPQA", "TREC"), pairwise(by_book), strict=True):
        sentences = tuple(one[:SENTENCES] + other[:SENTENCES])
        labels = tuple([0] * SENTENCES + [1] * SENTENCES)
        test = (tuple(one[-SENTENCES:] + other[-SENTENCES:]), labels) if name == "TREC" else ((), ())
        kind = "split" if name == "TREC" else "cv"
        tasks.append(SentenceTask(name, kind, sentences, labels, (), *test))  # type: ignore[arg-type]
    first, labels = by_book[0], tuple(place % 2 for place in range(SENTENCES))
    partners = tuple(first[place + 1 if label else -place - 1] for place, label in enumerate(labels))
    pairs = (tuple(first[:SENTENCES]), labels, partners)
    return (*tasks, SentenceTask("MSRP", "pairs", *pairs, *pairs))
