"""Files with a row for every sample: what suits is read as it is, anything else is one line."""

from pathlib import Path

import numpy as np
import pytest

from debiased_contrastive.membership.files import join_digest, read_groups, read_guide, read_rows


def test_groups_are_numbers_or_words_in_one_column_or_several(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("cat\ndog\ncat\n")
    (tmp_path / "numbers.csv").write_text("3\n-1\n3\n")
    np.save(tmp_path / "two.npy", np.array([[1, 2], [3, 4], [5, -1]]))
    assert read_groups(tmp_path / "words.txt", 3).tolist() == [["cat"], ["dog"], ["cat"]]
    assert read_groups(tmp_path / "numbers.csv", 3).tolist() == [[3], [-1], [3]]
    assert read_rows("groups", tmp_path / "two.npy", 3).tolist() == [[1, 2], [3, 4], [5, -1]]  # type: ignore[union-attr]
    assert read_rows("guide", None, 3) is None


def test_a_guide_is_a_table_of_fractions(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.savez(tmp_path / "guide.npz", features=rows, labels=np.arange(4))
    assert (read_guide(tmp_path / "guide.npz", 4) == rows).all()


@pytest.mark.parametrize(
    ("source", "array", "message"),
    [
        ("groups", np.zeros(3, int), "must have a row for each of the 4 samples .* got 3: write it"),
        ("groups", np.zeros(4), "must hold groups, whole numbers or words, .* got float64 of shape"),
        ("groups", np.zeros((4, 0), int), "must hold groups"),
        ("guide", np.zeros((4, 2), int), "must hold embeddings .* whole numbers and words are groups"),
        ("guide", np.zeros(4), "must hold embeddings"),
        ("guide", np.full((4, 2), np.nan), "NaN or inf in 4 of 4 rows, the first is row 0, counted from 0"),
        (
            "guide",
            np.diag([0.0, 0.0, np.inf, np.nan]),
            "NaN or inf in 2 of 4 rows, the first is row 2, counted from 0",
        ),
    ],
)
def test_what_does_not_suit_is_refused(source: str, array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(ValueError, match=message) as error:
        read_rows(source, tmp_path / "rows.npy", 4)
    assert "\n" not in str(error.value)


def test_other_rows_are_other_data() -> None:
    rows = np.array([[1], [2]])
    assert join_digest("abc", None) == "abc"
    assert len({join_digest("abc", rows), join_digest("abc", rows[::-1]), join_digest("abd", rows), "abc"}) == 4
