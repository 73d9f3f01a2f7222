"""What an audit says of a guide, groups, membership, own clusters and some labels."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import debiased_contrastive as dc
from debiased_contrastive.auditing import sample as sample_room
from debiased_contrastive.auditing import sources as room
from debiased_contrastive.auditing.result import AuditResult, SourceEffect
from debiased_contrastive.report.analyses import source_rows
from tests.auditing.test_audit import CLASSES, world
from tests.membership.test_force import noisy


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ROWS", 600)


def by_name(found: AuditResult) -> dict[str, SourceEffect]:
    return {each.name: each for each in found.sources}


def test_sources_are_ranked_by_what_they_know() -> None:
    x, y, labels = world(700)
    guide = F.normalize(torch.eye(CLASSES)[labels] + 0.2 * torch.randn(700, CLASSES), dim=1)
    groups = noisy(labels, 0.6, 0)
    membership = 0.9 * torch.eye(CLASSES)[labels]
    found = dc.audit(x, y, labels, temperature=0.5, guide=guide, groups=groups, membership=membership)
    sources = by_name(found)
    names = ["guide, consensus", "guide, walk", "groups", "membership", "own clusters"]
    counts = ["12 labels", "30 labels", "60 labels", "120 labels", "300 labels"]
    assert list(sources) == names + counts
    assert sources["membership"].best_share == pytest.approx(1, abs=1e-4)
    assert sources["membership"].strength == pytest.approx(1 / 0.81, rel=1e-3)
    assert 0.1 < (sources["groups"].share or 0) < (sources["membership"].share or 0) < 1
    assert (sources["300 labels"].best_share or 0) > 0.9
    assert found.labels_for_half is not None
    assert found.force_bias is not None
    assert 0.1 < found.force_bias < 2
    assert 'without labels is "membership"' in found.advice
    assert not any("rows have a label" in note for note in found.notes)
    few = torch.where(torch.arange(700) < 99, labels, -1)
    notes = dc.audit(x, y, few, temperature=0.5, groups=groups).notes
    assert any(note.startswith("Only 99 rows have a label: force shares and strengths by fewer") for note in notes)
    for each in found.sources:
        strengths, shares = zip(*each.curve, strict=True)
        assert (strengths[0], shares[0]) == (0, 0)
        assert each.best_share is not None
        assert max(shares) <= each.best_share + 1e-3
    rows = source_rows(found.to_dict())
    assert rows[-1][:2] == ("tau_plus", "0.00")
    assert len(rows) == len(sources) + 1


def test_it_is_the_force_share_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SHARES_OF_LABELS", ())
    x, y, labels = world(200)
    groups = noisy(labels, 0.7, 0)
    found = dc.audit(x, y, labels, temperature=0.3, groups=groups, batch_size=64)
    want = dc.force_share(x, labels, partitions=groups.unsqueeze(1), temperature=0.3)
    assert by_name(found)["groups"].share == pytest.approx(want, abs=1e-5)


def test_knowledge_belongs_to_the_rows_that_were_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sample_room, "KEPT_ROWS", 150)
    x, _, labels = world(500)
    part = torch.where(torch.arange(500) % 3 == 0, -1, labels)
    words = np.array(["a", "b", "c", "d", "e"])[labels]
    (tmp_path / "groups.txt").write_text("\n".join(words))
    np.save(tmp_path / "membership.npy", np.eye(CLASSES, dtype=np.float32)[labels])
    np.save(tmp_path / "guide.npy", np.eye(CLASSES, dtype=np.float32)[labels])
    found = dc.audit(
        x, labels=part, batch_size=64, guide=tmp_path / "guide.npy", groups=tmp_path / "groups.txt",
        membership=str(tmp_path / "membership.npy"),
    )  # fmt: skip
    sources = by_name(found)
    # Only where rows are matched does perfect knowledge have a perfect share.
    assert sources["groups"].share == pytest.approx(1)
    assert sources["membership"].share == pytest.approx(1)
    twice = dc.audit(x, labels=part, groups=np.stack([words, words[::-1]], 1))
    assert 0 < (by_name(twice)["groups"].share or 0) < 0.9
    assert dc.audit(x, labels=part, groups=words.astype("S"), batch_size=64).sources[0] == sources["groups"]


def test_without_labels_only_a_safe_strength_is_told() -> None:
    x, y, labels = world(200)
    found = dc.audit(x, y, groups=labels, guide=x, prior=0.2)
    sources = by_name(found)
    assert list(sources) == ["guide, consensus", "guide, walk", "groups"]
    assert all(each.share is None and each.best_share is None and not each.curve for each in found.sources)
    assert sources["groups"].strength == 0.2
    assert "ids that are facts bear 1. Labels of a few hundred rows would tell" in sources["groups"].words
    assert "Only knowledge of who shares a class" in found.advice
    assert found.force_bias is None
    assert {row[1] for row in source_rows(found.to_dict())} == {"unknown"}
    assert dc.audit(x, y, prior=0.2).sources == ()
    assert "What would change the force" in found.to_html()
    assert "What would change the force" not in dc.audit(x, y, prior=0.2).to_html()


def test_a_source_that_fails_does_not_stop_the_audit() -> None:
    x, y, _ = world(100)
    found = dc.audit(x, y, torch.arange(100), prior=0.2)
    assert found.sources == ()
    assert found.force_bias is None
    assert any(
        note.startswith("No force share of own clusters: the force must have a bias") for note in found.notes
    )


def bad() -> dict[str, tuple[dict[str, Any], str]]:
    x, _, labels = world(100)
    rows = torch.eye(CLASSES)[labels]
    return {
        "guide rows": ({"guide": x[:99]}, r"guide must hold an embedding.* for each of the 100 rows of embeddings; got"),
        "guide words": ({"guide": np.array([["a", "b"]] * 100)}, r"guide must hold an embedding"),
        "guide nan": ({"guide": x * math.nan}, r"guide must hold finite rows that are not zero; got 100 of 100"),
        "groups": ({"groups": labels + 0.5}, r"groups must hold ids, whole numbers or words.*; got float"),
        "groups rows": ({"groups": labels[:99]}, r"groups must hold ids.*\(99,\)"),
        "cube": ({"groups": torch.zeros(100, 2, 2, dtype=torch.int64)}, r"groups must hold ids.*\(100, 2, 2\)"),
        "membership": ({"membership": 2 * rows}, r"membership must have rows .* sum to at most 1; got .* sum of 2"),
        "negative": ({"membership": -rows}, r"membership must have rows that are at least 0"),
        "flat": ({"membership": rows[:, 0]}, r"membership must hold probabilities .*\(100,\)"),
        "whole": ({"membership": rows.long()}, r"membership must hold probabilities .* got int64"),
    }  # fmt: skip


@pytest.mark.parametrize("case", bad())
def test_bad_input_gets_one_line(case: str) -> None:
    arguments, line = bad()[case]
    x, _, labels = world(100)
    with pytest.raises(ValueError, match=line) as caught:
        dc.audit(x, labels=labels, **arguments)
    assert "\n" not in str(caught.value)
