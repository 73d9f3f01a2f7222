"""What an audit tells to do: only what was measured, about the force first."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import debiased_contrastive as dc
from debiased_contrastive.auditing.advice import advise, describe_labels, describe_source, labels_for_half
from debiased_contrastive.auditing.result import AuditResult, SourceEffect
from tests.auditing.test_audit import world


def source(name: str, best: float | None, *, labels: int | None = None, share: float = 0.0) -> SourceEffect:
    effect = SourceEffect(
        name=name, argument="partitions", made_by="from_groups(ids)", labels=labels, share=share, strength=0.456,
        best_share=best, curve=(), words="", warnings=(),
    )  # fmt: skip
    return effect if best is None else replace(effect, words=describe_source(effect))


@cache
def usual() -> AuditResult:
    return replace(
        dc.audit(world(60)[0], prior=0.1),
        biased_loss=4.0, unbiased_loss=3.0, constant=0.0437, loss_at_constant=3.1, loss_at_auto=3.05,
        floored_at_prior=0.0, temperature=0.5, batch_size=256, spread_biased=0.3, spread_at_constant=0.05,
    )  # fmt: skip


def told(*, is_doubtful: bool = False, **changed: Any) -> tuple[Any, str]:
    return advise(replace(usual(), **changed), is_doubtful=is_doubtful)


def test_tau_plus_is_said_to_change_the_value_and_no_direction() -> None:
    setting, words = told()
    assert setting == 0.0437
    # Rounded down: more may not be safe.
    assert "tau_plus=0.043 brings the value of the loss to 3.1 (the biased loss is 4, with true negatives" in words
    assert "changes no direction of a force, so its force share is 0. It changes only their sizes." in words
    assert "from 0.30 of their mean to 0.05." in words
    setting, words = told(loss_at_constant=3.8)
    assert setting == "auto"
    assert "tau_plus=AutoTauPlus(prior=0.1) brings the value of the loss to 3.05" in words
    assert told(loss_at_constant=3.8, loss_at_auto=3.9)[0] == 0.0437, "auto would be worse"
    setting, words = told(unbiased_loss=3.99)
    assert setting == 0
    assert "sampling bias hardly moves the loss" in words
    assert told(biased_loss=1e-3, unbiased_loss=1e-9)[0] == 0
    setting, words = told(unbiased_loss=4.5)
    assert setting == 0
    assert "no nearer to each other" in words
    setting, words = told(is_doubtful=True)
    assert setting == 0
    assert "until the prior is known: pass it, or labels" in words


def test_sources_are_advised_by_their_force_share() -> None:
    _, words = told()
    assert words.startswith(
        "Only knowledge of who shares a class can set the direction of the force right: pass labels"
    )
    few = [source("100 labels", 0.3, labels=100), source("400 labels", 0.7, labels=400)]
    some = [source("guide, walk", 0.2), source("groups", 0.4, share=-0.5), source("own clusters", 0.9), *few]
    _, words = told(force_bias=0.25, sources=tuple(some))
    assert words.startswith(
        'Sampling bias is 25 % of the force. The best knowledge without labels is "groups". Call'
    )
    assert (
        "loss(z0, z1, partitions=..., strength=0.45) with from_groups(ids) (strength 1 would do harm): that"
        in words
    )
    assert "takes 40 % of the bias out of the force. All labels would take out all of it." in words
    assert "half of it with about 200 labels." in words
    _, words = told(force_bias=0.25, sources=(source("guide, walk", 0.05), source("own clusters", 0.9), *few))
    assert "and nothing at hand but labels is known to take a tenth of it away" in words
    assert source("own clusters", 0.9).words == (
        "Leave it out: it takes 90 % of the bias out of the force, but trainings with own features gained nothing by it."
    )
    _, words = told(force_bias=0.25, sources=(source("guide, walk", 0.05), *few))
    assert (
        "25 % of the force, and nothing at hand but labels is known to take a tenth of it away. All labels" in words
    )
    _, words = told(force_bias=0.25, sources=(source("guide, walk", None),))
    assert "too few rows to tell how many labels" in words
    _, words = told(force_bias=0.01, sources=tuple(some))
    assert words.startswith(
        "Sampling bias is 1 % of the force: no knowledge about classes is worth its trouble here."
    )


def test_nothing_is_promised_that_was_not_measured() -> None:
    x, y, labels = world(300)
    for found in (dc.audit(x, y, labels, temperature=0.5), dc.audit(x, y, prior=0.2)):
        assert "tau_plus" in found.advice
        assert not any(word in found.advice for word in ("closes", "gap", "accuracy", "gain"))
    assert any("not how many points of accuracy" in note for note in dc.audit(x, y, labels).notes)


def test_a_source_is_used_or_left_out_in_one_sentence() -> None:
    assert source("a", 0.04).words == "Leave it out: no strength takes more than 4 % of the bias out of the force."
    harmful = source("a", 0.0, share=-1.0)
    assert harmful.words.endswith("more than 0 % of the bias out of the force (strength 1 would do harm).")
    assert source("a", 0.5).words.startswith(
        "Call loss(z0, z1, partitions=..., strength=0.45) with from_groups(ids): "
    )
    doubted = replace(source("a", 0.5), warnings=("column 0 has no ids",))
    assert describe_source(doubted).endswith("out of the force. But column 0 has no ids.")


@pytest.mark.parametrize(
    ("tried", "needed", "words"),
    [
        ({}, None, "too few rows"),
        ({100: 0.6, 400: 0.9}, 100, "half of it with at most 100 labels"),
        ({100: 0.3, 400: 0.7}, 200, "half of it with about 200 labels"),
        ({100: 0.1, 400: 0.3}, None, "takes 30 % of it away with 400 labels: half of it needs more labels"),
    ],
)
def test_the_number_of_labels_for_half_lies_between_those_tried(
    tried: dict[int, float], needed: int | None, words: str
) -> None:
    sources = [source("guide", 0.9), *(source(str(count), share, labels=count) for count, share in tried.items())]
    assert labels_for_half(sources) == needed
    assert words in describe_labels(sources)


def test_tau_plus_with_one_positive_turns_no_force() -> None:
    """What the advice rests on: the gradient of each anchor has the direction that it has without a correction."""
    generator = torch.Generator().manual_seed(0)
    anchor, positive, *others = torch.nn.functional.normalize(
        torch.randn(40, 8, generator=generator).double(), dim=1
    )
    forces = []
    for tau_plus in (0.0, 0.02, 0.05):
        z = anchor.clone().requires_grad_()
        logits = torch.stack(others) @ z / 0.5
        loss = dc.contrastive_loss((z @ positive / 0.5).reshape(1), logits.reshape(1, -1), tau_plus=tau_plus)
        (force,) = torch.autograd.grad(loss.sum(), z)
        forces.append(force)
    biased, *corrected = forces
    for force in corrected:
        assert float(force @ biased / force.norm() / biased.norm()) == pytest.approx(1)
        assert float(force.norm() / biased.norm()) != pytest.approx(1, abs=1e-3)
