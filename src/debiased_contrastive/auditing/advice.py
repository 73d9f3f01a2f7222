"""Which tau_plus to set, and why, in two sentences."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from debiased_contrastive.report.number import small

NEGLIGIBLE = 0.01
"""Share of the biased loss below which bias is not worth a correction; also the size of a bias that is not."""
HALF = 0.5
"""Share of the gap that a constant must close, where "auto" closes more."""
SAFE = 0.05
"""Share of anchors on the floor up to which a tau_plus is called safe."""

Setting: TypeAlias = float | Literal["auto"]


@dataclass(frozen=True)
class Case:
    """What the advice goes by."""

    biased: float
    unbiased: float
    constant: float
    """The best safe constant."""
    at_constant: float
    """Its loss."""
    at_auto: float
    prior: float
    is_doubtful: bool
    """Whether something speaks against the prior."""
    floored_at_prior: float
    temperature: float
    batch_size: int


def advice(case: Case) -> tuple[Setting, str]:
    """The setting, and the two sentences."""
    gap = f"the biased loss is {case.biased:.3g}, with true negatives alone it would be {case.unbiased:.3g}"
    if case.is_doubtful:
        return 0.0, (
            "Keep tau_plus=0 until the prior is known: pass it, or labels of a few hundred rows, since these "
            f"embeddings do not tell. If it were {small(case.prior)}, as clusters say, {gap}."
        )
    if case.unbiased > case.biased:
        return 0.0, (
            f"Keep tau_plus=0: samples of one class are no nearer to each other than others, {gap}. "
            "So false negatives do no harm that a correction could undo."
        )
    if case.biased - case.unbiased < NEGLIGIBLE * max(1.0, case.biased):
        count = case.prior * (case.batch_size - 1)
        return 0.0, (
            f"Keep tau_plus=0: sampling bias is negligible here, {gap}. About {count:.1f} of an anchor's "
            f"{case.batch_size - 1} unlabeled samples share its class, but hardly add to its loss."
        )
    return _worth_it(case, gap)


def _worth_it(case: Case, gap: str) -> tuple[Setting, str]:
    by_constant, by_auto = (closed(case.biased, case.unbiased, loss) for loss in (case.at_constant, case.at_auto))
    of_prior = (
        f"the prior itself, {small(case.prior)}, would put {100 * case.floored_at_prior:.0f} % of the anchors there"
    )
    if by_constant < HALF and by_auto > by_constant:
        return "auto", (
            f"Set tau_plus=AutoTauPlus(prior={down(case.prior)}), which closes {100 * by_auto:.0f} % of the gap: "
            f"at temperature {case.temperature:g} no constant that keeps {100 - 100 * SAFE:.0f} % of the anchors "
            f"off the floor closes half of it, and {of_prior}. Sampling bias is worth a correction: {gap}."
        )
    limit = f", not more: {of_prior.replace('there', 'on the floor')}" if case.floored_at_prior > SAFE else ""
    return case.constant, (
        f"Set tau_plus={down(case.constant)}{limit}. "
        f"It closes {100 * by_constant:.0f} % of the gap that sampling bias makes: {gap}."
    )


def closed(biased: float, unbiased: float, found: float) -> float:
    """Share of the gap between the biased and the unbiased loss that a correction closes; less if it overshoots.

    >>> closed(4.0, 3.0, 3.25), closed(4.0, 3.0, 1.0)
    (0.75, -1.0)
    """
    return 1 - abs(found - unbiased) / (biased - unbiased)


def down(value: float) -> str:
    """Two digits, as one would type them; rounded down, since more may not be safe.

    >>> down(0.1), down(0.00437), down(0.0), down(0.4999)
    ('0.1', '0.0043', '0', '0.49')
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # A hair more, since 0.1 is a hair less than ten times 0.01.
    return small(math.floor(value / unit * (1 + 1e-9)) * unit)
