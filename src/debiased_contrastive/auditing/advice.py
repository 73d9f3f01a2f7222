"""What to do, in words: which source of knowledge bends the force, and what tau_plus can and cannot do."""

import math
from collections.abc import Sequence

from debiased_contrastive.auditing.result import OWN, AuditResult, Setting, SourceEffect
from debiased_contrastive.report.numbers import small

NEGLIGIBLE_BIAS = 0.01
"""Share of the biased loss, and size of the bias, below which a correction of its value is not worth it."""
NEGLIGIBLE_FORCE = 0.02
"""Size of the bias in the force, beside the force, below which knowledge is not worth it."""
WORTH = 0.1
"""Force share from which on a source is worth its trouble."""
HARM = 0.02
"""Negative force share that is more than noise."""
SHARE_TO_CLOSE = 0.5
"""Share of the gap of the value that a constant must close to be preferred to an "auto" that closes more."""


def advise(result: AuditResult, *, is_doubtful: bool) -> tuple[Setting, str]:
    """The tau_plus that sets the value of the loss right, and what to do; `is_doubtful` if the prior is.

    Nothing is promised that was not measured: a force share is no accuracy.
    """
    biased, unbiased = result.biased_loss, result.unbiased_loss
    gap = f"the biased loss is {biased:.3g}, with true negatives alone it would be {unbiased:.3g}"
    if is_doubtful:
        return 0.0, (
            "Keep tau_plus=0 until the prior is known: pass it, or labels of a few hundred rows, since these "
            f"embeddings do not tell. If it were {small(result.prior.value)}, as clusters say, {gap}."
        )
    if unbiased > biased:
        setting: Setting = 0.0
        on_value = f"Keep tau_plus=0: samples of one class are no nearer to each other than others, {gap}."
    elif biased - unbiased < NEGLIGIBLE_BIAS * max(1.0, biased):
        setting = 0.0
        on_value = f"Keep tau_plus=0: sampling bias hardly moves the loss, {gap}."
    else:
        setting, on_value = _on_value(result, gap)
    return setting, f"{_on_force(result)} {on_value}"


def _on_force(result: AuditResult) -> str:
    """The best source that takes no labels, and how many labels it would take without it."""
    if result.force_bias is None:
        return (
            "Only knowledge of who shares a class can set the direction of the force right: pass labels of a few "
            "hundred rows, beside a guide or groups if there are any, to learn what that is worth here."
        )
    size = f"Sampling bias is {100 * result.force_bias:.0f} % of the force"
    if result.force_bias < NEGLIGIBLE_FORCE:
        return f"{size}: no knowledge about classes is worth its trouble here."
    by_labels = describe_labels(result.sources)
    # What is learnt confirms its own errors: trainings gained nothing from it, whatever its share was before.
    others = [each for each in result.sources if each.labels is None and each.name != OWN]
    useful = [each for each in others if (each.best_share or 0) >= WORTH]
    if not useful:
        return f"{size}, and nothing at hand but labels is known to take a tenth of it away. {by_labels}"
    best = max(useful, key=lambda each: each.best_share or 0)
    return f'{size}. The best knowledge without labels is "{best.name}". {best.words} {by_labels}'


def describe_source(effect: SourceEffect) -> str:
    """What to do with a source whose share was measured, in one sentence."""
    assert effect.share is not None
    assert effect.best_share is not None
    against = "".join(f" But {warning}." for warning in effect.warnings)
    harm = " (strength 1 would do harm)" if effect.share < -HARM else ""
    share = f"{max(0.0, 100 * effect.best_share):.0f} % of the bias out of the force"
    if effect.best_share < WORTH:
        return f"Leave it out: no strength takes more than {share}{harm}."
    if effect.name == OWN:
        return f"Leave it out: it takes {share}{harm}, but trainings with own features gained nothing by it."
    call = f"loss(z0, z1, {effect.argument}=..., strength={round_down(effect.strength)})"
    return f"Call {call} with {effect.made_by}{harm}: that takes {share}.{against}"


def labels_for_half(sources: Sequence[SourceEffect]) -> int | None:
    """Number of labels with which a classifier takes half of the bias out of the force, between those tried.

    The smallest that was tried if that does already; None if none does.
    """
    before, lower = 0, 0.0
    for each in sources:
        if each.labels is None or each.best_share is None:
            continue
        if each.best_share >= 0.5:
            part = (0.5 - lower) / (each.best_share - lower)
            return (
                each.labels if not before else math.ceil(before * math.exp(part * math.log(each.labels / before)))
            )
        before, lower = each.labels, each.best_share
    return None


def describe_labels(sources: Sequence[SourceEffect]) -> str:
    """How many labels would take half of the bias away, in one sentence."""
    tried = [(each.labels, each.best_share) for each in sources if each.labels and each.best_share is not None]
    if not tried:
        return "There are too few rows to tell how many labels a classifier needs to take half of it away."
    needed, (most, share) = labels_for_half(sources), tried[-1]
    if needed is None:
        return (
            f"A classifier on these embeddings takes {100 * share:.0f} % of it away with {most:,} labels: half of "
            "it needs more labels or better features."
        )
    about = "at most" if needed == tried[0][0] else "about"
    return (
        "All labels would take out all of it. A classifier on these embeddings takes out half of it with "
        f"{about} {needed:,} labels."
    )


def _on_value(result: AuditResult, gap: str) -> tuple[Setting, str]:
    """The tau_plus that sets the value right, and that it sets nothing else right."""
    prior = result.prior.value
    by_constant = share_closed(result.biased_loss, result.unbiased_loss, result.loss_at_constant)
    by_auto = share_closed(result.biased_loss, result.unbiased_loss, result.loss_at_auto)
    setting: Setting
    if by_constant < SHARE_TO_CLOSE and by_auto > by_constant:
        setting, name, value = "auto", f"AutoTauPlus(prior={round_down(prior)})", result.loss_at_auto
        sizes = ""
    else:
        setting, name, value = result.constant, round_down(result.constant), result.loss_at_constant
        spread = f"from {result.spread_biased:.2f} of their mean to {result.spread_at_constant:.2f}"
        sizes = f" The spread of the sizes goes {spread}."
    return setting, (
        f"tau_plus={name} brings the value of the loss to {value:.3g} ({gap}). But with one positive and off the "
        f"floor it changes no direction of a force, so its force share is 0. It changes only their sizes.{sizes}"
    )


def share_closed(biased: float, unbiased: float, corrected: float) -> float:
    """Share of the gap between the biased and the unbiased loss that a correction closes; less if it overshoots.

    >>> share_closed(4.0, 3.0, 3.25), share_closed(4.0, 3.0, 1.0)
    (0.75, -1.0)
    """
    return 1 - abs(corrected - unbiased) / (biased - unbiased)


def round_down(value: float) -> str:
    """Two digits, as one would type them; rounded down, since more may not be safe.

    >>> round_down(0.1), round_down(0.00437), round_down(0.0), round_down(0.4999)
    ('0.1', '0.0043', '0', '0.49')
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # Slightly more, since 0.1 is slightly less than ten times 0.01.
    return small(math.floor(value / unit * (1 + 1e-9)) * unit)
