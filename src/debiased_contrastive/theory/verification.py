"""All claims, one after the other."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from debiased_contrastive.theory.claim import Claim
from debiased_contrastive.theory.claims.equation_4 import equation_4, equation_4_spread
from debiased_contrastive.theory.claims.lemma_1 import lemma_1, lemma_1_limit
from debiased_contrastive.theory.claims.lemma_2 import lemma_2, lemma_2_rate
from debiased_contrastive.theory.claims.lemma_4 import lemma_4, lemma_4_needs_its_condition
from debiased_contrastive.theory.claims.lemma_a4 import (
    lemma_a4_absolute,
    lemma_a4_size,
    lemma_a4_slope,
    single_positive,
)
from debiased_contrastive.theory.claims.setup import one_prior
from debiased_contrastive.theory.claims.theorem_3 import (
    lemma_a2,
    theorem_3,
    theorem_3_bias,
    theorem_3_proof,
    theorem_3_rate,
    theorem_3_temperature,
)
from debiased_contrastive.theory.claims.theorem_5 import theorem_5, theorem_5_deviation, theorem_5_lambda

CLAIMS: tuple[Callable[[], Claim], ...] = (
    one_prior,
    lemma_1,
    lemma_1_limit,
    equation_4,
    equation_4_spread,
    lemma_2,
    lemma_2_rate,
    theorem_3,
    theorem_3_rate,
    theorem_3_temperature,
    theorem_3_proof,
    theorem_3_bias,
    lemma_a2,
    lemma_4,
    lemma_4_needs_its_condition,
    lemma_a4_slope,
    lemma_a4_absolute,
    lemma_a4_size,
    theorem_5,
    theorem_5_deviation,
    theorem_5_lambda,
    single_positive,
)


def as_json(claim: Claim) -> dict[str, Any]:
    """The claim with its verdict, as plain data; the case to show comes first."""
    others = [case for case in claim.cases if case is not claim.tightest]
    return {
        "name": claim.name,
        "statement": claim.statement,
        "relation": claim.relation,
        "subject": claim.subject,
        "holds": claim.holds,
        "printed_holds": claim.printed_holds,
        "verdict": claim.verdict,
        "cases": [asdict(case) for case in (claim.tightest, *others)],
        "plots": [asdict(plot) for plot in claim.plots],
    }
