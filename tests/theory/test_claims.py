"""Every statement of the paper is checked; a wrong constant is noticed."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from debiased_contrastive.cli.main import main
from debiased_contrastive.report.analyses import markdown, plot_claims
from debiased_contrastive.theory import guarantee_claims, loss_claims
from debiased_contrastive.theory import guarantee_claims as verification
from debiased_contrastive.theory.bounds import bias_gap_bound, finite_sample_bound
from debiased_contrastive.theory.claim import Case, Claim
from debiased_contrastive.theory.generalization import lipschitz_constant

FAILING_IN_PRINT = {
    "Uniform classes": "fails without its assumption",
    "Theorem 3, temperature": "printed fails, corrected holds",
    "Theorem 3, its proof": "the printed derivation fails",
    "Lemma A.4, slope": "printed fails, corrected holds",
    "Lemma A.4, size": "printed up to a factor; with factor 1 it fails",
    "Theorem 5, lambda": "the printed derivation fails",
}


@pytest.mark.parametrize("claim", verification.CLAIMS, ids=lambda claim: claim.__name__)
def test_what_the_library_says_holds_and_what_is_printed_as_expected(claim: Callable[[], Claim]) -> None:
    found = claim()
    assert found.holds, found.tightest
    assert (found.printed_holds is False) == (found.name in FAILING_IN_PRINT), found.tightest
    if found.name in FAILING_IN_PRINT:
        assert found.verdict == FAILING_IN_PRINT[found.name]


def test_relations_and_verdicts() -> None:
    def claim(relation: str, *cases: Case) -> Claim:
        return Claim("x", "y", relation, cases)  # type: ignore[arg-type]

    both = claim("at most", Case("", 1.0, 2.0, 3.0), Case("", 1.0, 2.0, 1.5))
    assert both.verdict == "holds as printed; corrected is sharper in 1 of 2"
    assert claim("at most", Case("", 1.0, 2.0, 0.5)).verdict == "printed fails, corrected holds"
    assert claim("at most", Case("", 1.0, 0.5, 2.0)).verdict == "FAILS"
    assert claim("at least", Case("", 1.0, 0.5, 0.2)).verdict == "holds as printed; corrected is sharper in 1 of 1"
    assert claim("at least", Case("", 1.0, 1.5)).verdict == "FAILS"
    assert claim("at least", Case("", 1.0, 1.5, error=0.6)).holds
    assert not claim("above", Case("", 1.0, 1.0)).holds
    assert not claim("above", Case("", 1.0, 0.9, error=0.2)).holds
    assert claim("above", Case("", 1.0, 0.9)).verdict == "holds; not in print"
    assert claim("equal", Case("", 1.0, 1.0, 1.0)).verdict == "holds as printed"
    assert claim("equal", Case("", 1.0, 1.0 + 1e-6)).verdict == "FAILS"
    assert claim("equal", Case("", 1.0, 1.0 + 1e-6, tolerance=1e-5)).holds
    mixed = claim("at most", Case("near", 1.0, 1.1, 1.2), Case("wrong in print", 1.0, 9.0, 0.5))
    assert mixed.tightest.where == "wrong in print"
    assert claim("at most", Case("far", 1.0, 9.0), Case("near", 1.0, 1.1)).tightest.where == "near"


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims that take no time."""
    monkeypatch.setattr(guarantee_claims, "CLAIMS", (loss_claims.lemma_a4_slope, guarantee_claims.theorem_3_bias))


def test_verify_writes_numbers_plots_and_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick(monkeypatch)
    main(["verify", "--out", str(tmp_path / "theory"), "--quiet"])
    record = json.loads((tmp_path / "theory" / "theory.json").read_text())
    assert [claim["holds"] for claim in record["claims"]] == [True, True]
    assert "printed fails, corrected holds" in capsys.readouterr().out
    drawing = (tmp_path / "theory" / "theorem-3-bias.svg").read_text()
    assert drawing.count("<path") > 5
    assert plot_claims(record)["theorem-3-bias"] == drawing  # the same bytes each time
    assert len(markdown(record).splitlines()) == 4


def test_verify_fails_with_a_wrong_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick(monkeypatch)
    # What Lemma A.4 would be with e for e^2.
    monkeypatch.setattr(
        loss_claims, "lipschitz_constant", lambda *sizes, **rest: lipschitz_constant(*sizes, **rest) / math.e
    )
    with pytest.raises(SystemExit) as end:
        main(["verify", "--out", str(tmp_path), "--quiet"])
    assert end.value.code == 1
    said = capsys.readouterr()
    assert "debiased: Lemma A.4, slope did not hold" in said.err
    assert "FAILS" in said.out


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.35, False)])
def test_theorem_3_would_notice_a_constant_three_times_too_small(
    factor: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        guarantee_claims, "finite_sample_bound", lambda *sizes, **rest: factor * finite_sample_bound(*sizes, **rest)
    )
    monkeypatch.setattr(guarantee_claims, "sphere_difference", lambda *_sizes: (0.0, 0.0))
    assert guarantee_claims.theorem_3().holds == holds


@pytest.mark.parametrize(
    "wrong",
    ["0", "tau * ratio", "bias_gap_bound(ratio / 2, tau, n)"],
    ids=["nothing", "no slack", "half the ratio"],
)
def test_lemma_1_would_notice_what_is_left_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def bound(ratio: float, tau: float, n: float, **_rest: object) -> float:
        known = {"ratio": ratio, "tau": tau, "n": n, "bias_gap_bound": bias_gap_bound}
        return float(eval(wrong, known))

    monkeypatch.setattr(loss_claims, "bias_gap_bound", bound)
    monkeypatch.setattr(loss_claims, "simulated_gap", lambda *_sizes: (1.0, 0.0, [1.0]))
    assert not loss_claims.lemma_1().holds


def test_theorem_5_would_notice_terms_a_hundred_times_too_small() -> None:
    found = guarantee_claims.theorem_5_deviation()
    assert found.holds
    assert any(case.measured > case.corrected / 130 for case in found.cases)


def test_bounds_of_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bounds", "--tau-plus", "0.1", "--num-unlabeled", "510", "--num-positives", "1", "--temperature", "0.1"])
    assert "vacuous" in capsys.readouterr().out
    main(["bounds", "--tau-plus", "0.1", "--num-unlabeled", "510", "--temperature", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found[0]["value"] == pytest.approx(0.38819, abs=1e-5)
    assert found[0]["verdict"] == "says something"


def test_the_commands_need_their_own_extra_alone() -> None:
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('lightning_fabric', 'sklearn', 'safetensors')));"
        "from debiased_contrastive.cli.main import main;"
        "import debiased_contrastive.theory.guarantee_claims;"
        "main(['bounds', '--tau-plus', '0.1', '--num-unlabeled', '510'])"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
