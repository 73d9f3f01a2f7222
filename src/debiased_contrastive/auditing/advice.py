"""Which tau_plus to set, and why, in two sentences."""

NEGLIGIBLE = 0.01
"""Share of the biased loss below which bias is not worth a correction."""
HALF = 0.5
"""Share of the gap that a constant must close to be worth advising."""
SAFE = 0.05
"""Share of anchors on the floor up to which a tau_plus is called safe."""


def closed(biased: float, unbiased: float, found: float) -> float:
    """Share of the gap between the biased and the unbiased loss that a correction closes; less if it overshoots.

    >>> closed(4.0, 3.0, 3.25), closed(4.0, 3.0, 1.0)
    (0.75, -1.0)
    """
    return 1 - abs(found - unbiased) / (biased - unbiased)


def advice(
    *,
    biased: float,
    unbiased: float,
    tau_plus: float,
    found: float,
    prior: float,
    floored_at_prior: float,
    temperature: float,
    batch_size: int,
) -> tuple[bool, str]:
    """Whether "auto" is better than the constant tau_plus, whose loss is `found`; and what to say."""
    gap = f"the biased loss is {biased:.3g}, with true negatives alone it would be {unbiased:.3g}"
    if biased - unbiased < NEGLIGIBLE * biased:
        return False, (
            f"Keep tau_plus=0: sampling bias is negligible here, {gap}. About {prior * (batch_size - 1):.1f} of an "
            f"anchor's {batch_size - 1} unlabeled samples share its class, but are hardly nearer than the others."
        )
    share = closed(biased, unbiased, found)
    at_prior = (
        f"the prior itself, {number(prior)}, would put {100 * floored_at_prior:.0f} % of the anchors on the floor"
    )
    if share < HALF:
        why = f", and {at_prior}" if floored_at_prior > SAFE else ""
        return True, (
            f'Set tau_plus="auto" with prior={number(prior)}: at temperature {temperature:g} no constant that '
            f"keeps {100 - 100 * SAFE:.0f} % of the anchors off the floor closes half of the gap{why}. "
            f"Sampling bias is worth a correction: {gap}."
        )
    why = f", not more: {at_prior}" if floored_at_prior > SAFE else ""
    return False, (
        f"Set tau_plus={number(tau_plus)}{why}. "
        f"It closes {100 * share:.0f} % of the gap that sampling bias makes: {gap}."
    )


def number(value: float) -> str:
    """Two digits, as one would type them.

    >>> number(0.1), number(0.00432), number(0.0)
    ('0.1', '0.0043', '0')
    """
    return f"{float(f'{value:.2g}'):.10f}".rstrip("0").rstrip(".")
