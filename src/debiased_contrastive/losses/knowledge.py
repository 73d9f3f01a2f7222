"""What a caller knows about classes, checked, and the weights of pairs that follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from debiased_contrastive.kernels.gather import Share, gather_rows
from debiased_contrastive.kernels.weights import Form, GivenWeights, Membership, PairWeights, Partitions
from debiased_contrastive.losses.inputs import check_both_or_neither, check_codes, check_shape
from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.losses import check_tensor, check_weights

Kind: TypeAlias = Literal["membership", "partitions", "weights"]

SHARED = ("kind of knowledge", "width of knowledge")
"""Names of the numbers that must be the same on every process."""
SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""How much more than 1 the probabilities of a sample may be together: what a softmax in that dtype loses."""
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Strength:
    """How far knowledge is trusted."""

    weights: float | Tensor
    """Share of the probability of a common class that is taken off a pair's weight, one number or (b,)."""
    attraction: float
    """Weight of a sample that surely shares the anchor's class in the numerator, where its own positive has 1."""
    above: float
    """Samples join the numerator where the probability of a common class is larger."""

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Tensor) and not (
            isinstance(self.weights, Real) and 0 <= self.weights < 1e6
        ):
            raise ValueError(
                f"strength must be a finite number >= 0 or a tensor of them; got {self.weights!r}: 1 believes the "
                "probabilities, 0 ignores them"
            )
        if not isinstance(self.attraction, Real) or not 0 <= self.attraction < 1e6:
            raise ValueError(
                f"attraction must be a finite number >= 0; got {self.attraction!r}: 0 is off, 1 weights a sample "
                "that surely has the anchor's class like its own positive"
            )
        if not isinstance(self.above, Real) or not 0 <= self.above <= 1:
            raise ValueError(f"attraction_above must lie in [0, 1]; got {self.above!r}: it is a probability")

    @property
    def is_nothing(self) -> bool:
        """Whether knowledge changes nothing, whatever it says."""
        # Compared, since `not` would bind a compiled graph to the very number.
        return not isinstance(self.weights, Tensor) and self.weights == 0 and self.attraction == 0

    def for_each(self, like: Tensor, *, look: bool) -> "Strength":
        """The same, with a tensor checked and in the dtype of `like` (b,)."""
        if not isinstance(self.weights, Tensor):
            return self
        strength = self.weights.detach()
        if strength.dim() > 0 and strength.shape != like.shape:
            raise ValueError(
                f"strength must be one number or have shape (b,) = {tuple(like.shape)}; got {tuple(strength.shape)}"
            )
        if look and not bool(((strength >= 0) & (strength < 1e6)).all()):
            raise ValueError("strength must be finite and >= 0 for every anchor; got others: 1 is full strength")
        return replace(self, weights=strength.to(like.device, working_dtype(like)).expand_as(like))

    def repeated(self, repeats: int) -> "Strength":
        """For as many consecutive anchors of each input."""
        if not isinstance(self.weights, Tensor):
            return self
        return replace(self, weights=self.weights.repeat_interleave(repeats))

    def pair_weights(self, form: Form) -> PairWeights | None:
        """The weights of pairs; None where all of them are 1."""
        if not isinstance(self.weights, Tensor) and not self.weights:
            return None
        return PairWeights(form, self.weights)


@dataclass(frozen=True)
class CallKnowledge:
    """The knowledge of one call, checked."""

    kind: Kind
    rows: Tensor
    """(b, k) probabilities, (b, B) codes, or (b, n) weights."""
    columns: Tensor | None
    """Those of samples that are not in the batch; None where the columns are the batch."""
    joins_batch: bool = False
    """Whether these samples (b, m, ...) join those of the batch, as hard negatives do."""

    def check_columns(self, count: int) -> None:
        """Raise unless weights have a column for each sample that anchors are compared with."""
        if self.kind == "weights" and self.rows.shape[1] != count:
            raise ValueError(
                f"weights must have a column for each of the {count} samples that anchors are compared with, over "
                f"all processes; got shape {tuple(self.rows.shape)}: rows are anchors, columns the others"
            )

    def form(self, share: Share, dtype: torch.dtype, *, repeats: int = 1, with_hard: bool = True) -> Form:
        """The probabilities that pairs share a class, where each input is so many consecutive anchors.

        with_hard: whether hard negatives are columns behind the batch, as they are for queries but not for keys.
        """

        def repeat(of_inputs: Tensor) -> Tensor:
            return of_inputs if repeats == 1 else of_inputs.repeat_interleave(repeats, 0)

        if self.kind == "weights":
            return GivenWeights((self.rows if with_hard else self.rows[:, : share.total]).to(dtype), repeats)
        rows = self.rows.to(dtype) if self.kind == "membership" else self.rows
        if self.columns is None or self.joins_batch:
            columns = gather_rows(rows, share)
        else:
            columns = self.columns.to(rows.dtype)
        if self.joins_batch and with_hard and self.columns is not None:
            columns = torch.cat([columns, gather_rows(self.columns.to(rows.dtype), share).flatten(0, 1)])
        pair = repeat(rows), repeat(columns)
        return Membership(*pair) if self.kind == "membership" else Partitions.of(*pair, dtype)


def shared_numbers(known: CallKnowledge | None) -> dict[str, int]:
    """What must be the same on every process, by the names of `SHARED`."""
    if known is None:
        return dict.fromkeys(SHARED, 0)
    return dict(zip(SHARED, (1 + get_args(Kind).index(known.kind), known.rows.shape[-1]), strict=True))


def check_knowledge(
    given: Mapping[str, Tensor | None],
    like: Tensor,
    *,
    negatives: Tensor | None = None,
    hard_negatives: Tensor | None = None,
    excluded: Mapping[str, object],
    trust: Mapping[str, object] | None = None,
    look: bool,
) -> CallKnowledge | None:
    """The knowledge of a call, or None without any; raise where it is no knowledge, or there is too much of it.

    Args:
        given: By their names: membership, partitions, weights, and negative_membership and negative_partitions
            where the loss takes them.
        like: Embeddings of the anchors (b, d).
        negatives: Unlabeled samples of the call, (k, d) or (b, k, d); None is the batch.
        hard_negatives: Samples (b, m, d) that join the batch.
        excluded: Other arguments of the call, by name, that mean something else by the same word.
        trust: Arguments of the call, by name, that say how far knowledge is trusted, and mean nothing without any.
        look: Check values, too.
    """
    present = [kind for kind in get_args(Kind) if given[kind] is not None]
    others = [name for name, value in given.items() if name.startswith("negative_") and value is not None]
    if not present:
        if others:
            raise ValueError(
                f"{others[0]} is of the negatives; got none of the anchors: pass "
                f"{others[0].removeprefix('negative_')} too"
            )
        for name, value in (trust or {}).items():
            if value is not None:
                raise ValueError(
                    f"{name} says how far knowledge about classes is trusted; got it without any: pass membership, "
                    "partitions or weights too, or leave it out"
                )
        return None
    if len(present) > 1:
        raise ValueError(
            f"membership, partitions and weights exclude each other; got {' and '.join(present)}: pass one"
        )
    for name, value in excluded.items():
        if value is not None:
            raise ValueError(
                f"{present[0]} takes the place of {name}; got both: pass one, they correct the same bias"
            )
    kind: Kind = present[0]
    rows = given[kind]
    assert rows is not None
    if kind == "weights":
        check_tensor("weights", rows)
        width = rows.shape[-1] if negatives is None or rows.dim() != 2 else negatives.shape[-2]
        check_weights(rows, (len(like), width), like.device, look=look)
        _refuse(others, kind)
        # A copy, since the backward reads it again.
        return CallKnowledge(kind, rows.detach().clone(), None)
    _refuse([name for name in others if name != f"negative_{kind}"], kind)
    check = partial(_check_membership, look=look) if kind == "membership" else _check_partitions
    of_negatives = given.get(f"negative_{kind}")
    joins_batch = hard_negatives is not None
    negatives, named = (hard_negatives, "hard_negatives") if joins_batch else (negatives, "negatives")
    check_both_or_neither(kind, rows, named, negatives, of_negatives)
    rows = check(kind, rows, (len(like),), like, None)
    if of_negatives is not None and negatives is not None:
        of_negatives = check(f"negative_{kind}", of_negatives, tuple(negatives.shape[:-1]), like, rows.shape[1])
    return CallKnowledge(kind, rows, of_negatives, joins_batch)


def _refuse(others: list[str], kind: Kind) -> None:
    if others:
        raise ValueError(f"{others[0]} does not go with {kind}; got both: pass one kind of knowledge")


def _check_membership(
    name: str, values: Tensor, shape: tuple[int, ...], like: Tensor, width: int | None, *, look: bool
) -> Tensor:
    check_shape(name, values, (*shape, "k" if width is None else width), "one probability for each class")
    if not values.is_floating_point() or values.device != like.device:
        raise ValueError(
            f"{name} must be floating-point on {like.device}, where the embeddings are; got {values.dtype} on "
            f"{values.device}: convert it with .to(...)"
        )
    # A copy, since the backward reads it again, and a queue may have changed by then.
    values = values.detach().clone()
    if not look:
        return values
    limit = 1 + SUM_TOLERANCE.get(values.dtype, _SUM_TOLERANCE)
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    fits = (wide >= 0).all(-1) & (wide.sum(-1) <= limit)
    if not bool(fits.all()):
        raise ValueError(
            f"{name} must have rows of probabilities, each >= 0, together at most 1; got {int((~fits).sum())} of "
            f"{fits.numel()} rows that are not: a softmax makes such rows, a row of zeros is an unknown sample"
        )
    return values


def _check_partitions(name: str, values: Tensor, shape: tuple[int, ...], like: Tensor, width: int | None) -> Tensor:
    check_shape(name, values, (*shape, "B" if width is None else width), "one code for each clustering or group")
    codes = check_codes(name, values, tuple(values.shape), like)
    assert codes is not None
    return codes
