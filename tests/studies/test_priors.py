"""The comparison of the estimators: every world once, all of them in every row."""

import json
from pathlib import Path

import pytest

from debiased_contrastive.prior import mixture
from studies import priors
from studies.command import main


def test_worlds_are_compared_once_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "CLASSES", (5,))
    monkeypatch.setattr(priors, "PAIRS", (200, 1000))
    monkeypatch.setattr(priors, "ITEMS", 300)
    quick = {name: (function, 2) for name, (function, _) in mixture._ESTIMATORS.items()}
    monkeypatch.setattr(mixture, "_ESTIMATORS", quick)
    words = ["--out", str(tmp_path)]
    kept = tmp_path / "true-uneven-5.json"
    main("studies.priors", words)
    assert len(list(tmp_path.glob("*.json"))) == 4
    record = json.loads(kept.read_text())
    assert [estimate["method"] for estimate in record["estimates"]][1:-1] == list(priors.METHODS[1:-1])
    # Shares in proportion to 1/2, 1/3, 1/4, 1/5, 1/6.
    shares = [1 / k for k in (2, 3, 4, 5, 6)]
    assert record["truth"] == pytest.approx(sum(share**2 for share in shares) / sum(shares) ** 2)
    kept.write_text(json.dumps({**record, "truth": 0.5}))
    main("studies.priors", words)
    assert json.loads(kept.read_text())["truth"] == 0.5
    lines = priors.markdown(tmp_path).splitlines()
    assert len(lines) == 6
    assert lines[2].startswith("| true | 5 even | 0.2000 |")
    assert lines[4].startswith("| stand-in | 5 even")
    assert "*" in lines[4]
