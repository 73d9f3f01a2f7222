from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.membership.labels import from_groups, from_labels

MISSING = (None, "", -1, float("nan"))


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=12))
def test_labels_and_the_same_labels_as_groups_say_the_same(labels: list[int]) -> None:
    places = torch.arange(len(labels))
    by_labels, by_groups = from_labels(labels), from_groups(labels)
    q = by_labels.same_class(places, places)
    for i, one in enumerate(labels):
        for j, other in enumerate(labels):
            assert q[i, j] == (one == other >= 0)
    assert torch.equal(q, by_groups.same_class(places, places))
    assert by_labels.quality == pytest.approx(dict(by_groups.quality))


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda x: torch.tensor(x, dtype=torch.int8)])
def test_labels_come_as_lists_arrays_and_tensors(kind: Any) -> None:
    known = from_labels(kind([2, -1, 0]), num_classes=4)
    assert known.membership is not None
    assert known.membership.dtype == torch.float32
    assert known.membership.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert known.quality == pytest.approx({"known": 2 / 3, "mean_q": 0.0})


@pytest.mark.parametrize(
    ("labels", "num_classes", "message"),
    [
        ([0, 3], 3, "num_classes must be above every label"),
        ([-1, -1], 0, "num_classes must be above every label"),
        ([0, -2], None, "at least -1"),
        ([], None, "one row of whole numbers"),
        ([0.0, 1.0], None, "one row of whole numbers"),
        (["cat"], None, "neither names nor one-hot rows"),
        (torch.eye(3), None, "neither names nor one-hot rows"),
        (torch.tensor([True]), None, "one row of whole numbers"),
    ],
)
def test_labels_that_are_none_are_refused_in_one_line(labels: Any, num_classes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        from_labels(labels, num_classes=num_classes)
    assert "\n" not in str(error.value)


def test_labels_that_say_nothing_are_warned_of() -> None:
    assert from_labels([-1, -1]).warnings == ("no label is known: the loss stays the biased one",)
    assert "all labels are of one class" in from_labels([0, 0, -1, -1]).warnings[0]
    assert from_labels([0, 1, -1]).warnings == ()


def test_groups_are_the_share_of_columns_that_agree() -> None:
    shops, sessions = ["a", "b", "a", None, ""], np.array([7, 7, 7, -1, 9])
    known = from_groups(shops, sessions)
    q = known.same_class(torch.arange(5), torch.arange(5))
    assert q[0].tolist() == [1, 0.5, 1, 0, 0]
    assert q[3].tolist() == [0, 0, 0, 0, 0]
    assert q[4].tolist() == [0, 0, 0, 0, 0.5]
    assert known.quality["known"] == pytest.approx(0.8)


@pytest.mark.parametrize("missing", MISSING)
def test_whatever_is_missing_agrees_with_nothing(missing: object) -> None:
    assert from_groups([missing, missing, "a", "a"]).partitions.flatten().tolist() == [-1, -1, 0, 0]  # type: ignore[union-attr]


def test_columns_that_say_next_to_nothing_are_warned_of() -> None:
    constant, unique, useful = [1] * 99 + [2], list(range(100)), [i // 10 for i in range(100)]
    doubts = from_groups(constant, unique, useful, [None] * 100).warnings
    assert [words[:8] for words in doubts] == ["column 0", "column 1", "column 3"]
    assert "nearly all would share a class" in doubts[0]
    assert "it says next to nothing" in doubts[1]
    assert "has no ids" in doubts[2]
    assert "hardly a negative is left" in from_groups(constant).warnings[1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((), "columns must be there"),
        (([],), "columns must be there"),
        (([1, 2], [1]), r"got lengths \[2, 1\]"),
        ((np.eye(2),), "column 0 must be one row"),
        (([1, 2], [[1], [2]]), "column 1 must be one row"),
    ],
)
def test_columns_that_are_none_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_groups(*columns)
