"""The debiased loss against memory banks, as contrastive multiview coding has them (Section 5.1, ImageNet-100)."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.drawn import drawn_logits
from debiased_contrastive.kernels.gather import Share, share_of_batch
from debiased_contrastive.kernels.mask import Absent
from debiased_contrastive.losses.auto import AutoTauPlus, following
from debiased_contrastive.losses.inputs import (
    cast,
    check_embeddings,
    check_present,
    check_shape,
    checked_codes,
    layout,
)
from debiased_contrastive.losses.objective import (
    Diagnostics,
    Options,
    Record,
    diagnostics_of,
    losses_and_record,
    options_of,
)
from debiased_contrastive.numerics import working_dtype
from debiased_contrastive.objectives.checks import OnFloor, Reduction
from debiased_contrastive.objectives.statistics import Statistics, from_logits

LENGTH_TOLERANCE = 1e-2
_SHARED = ("batch size", *layout({}), "number of views", "number of unlabeled samples")


class DebiasedBankLoss(nn.Module):
    """Debiased InfoNCE (Eq. 8) of queries whose positive and unlabeled samples are rows of a bank.

    A query's positive is the row of its own sample, which no gradient reaches; unlabeled are rows drawn at random.
    Several views, each against the bank of another, are anchors of one loss.

    Relations: tau_plus=0 is InfoNCE; `DebiasedInfoNCELoss` takes unlabeled samples as they are, which for own ones
    of each query are b x k x d numbers; here there are none but the logits. Settings as there, banks being of unit
    vectors. on_floor="biased" is the paper's choice at so low a temperature.

    >>> loss = DebiasedBankLoss(temperature=0.5, tau_plus=0.05)
    >>> bank = torch.eye(4)
    >>> loss([torch.eye(4)[:2]], [bank], ids=torch.tensor([0, 1]), places=torch.tensor([[2, 3], [2, 3]]))
    tensor(0.1652)
    """

    beta = 0.0
    normalize = True
    relative_floor = 0.0
    kernel: Literal["auto"] = "auto"

    def __init__(
        self,
        temperature: float | Tensor = 0.07,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.01,
        *,
        on_floor: OnFloor = "biased",
        exclude_own: bool = False,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        """exclude_own: a query never meets its own row among the unlabeled; N is then smaller."""
        super().__init__()
        self.temperature = temperature
        self.tau_plus = following(tau_plus)
        self.on_floor = on_floor
        self.exclude_own = exclude_own
        self.gather_distributed = gather_distributed
        self.reduction = reduction
        self._record: Record | None = None
        options_of(self)

    @property
    def diagnostics(self) -> Diagnostics:
        """Of the last call."""
        return diagnostics_of(self._record)

    def extra_repr(self) -> str:
        """Show the settings when printed."""
        return f"exclude_own={self.exclude_own}, {options_of(self)}"

    def forward(self, queries: Sequence[Tensor], banks: Sequence[Tensor], *, ids: Tensor, places: Tensor) -> Tensor:
        """The loss of queries (b, d) of each view, whose rows are in the bank (n, d) of the same position.

        ids (b,): the own row of each query; places (b, k): its unlabeled ones, the same in all banks.
        With reduction="none" (b v,), the views of a sample beside each other.
        """

        def check() -> tuple[dict[str, int], tuple[Options, Tensor, Tensor]]:
            return _checked(queries, banks, ids, places, options_of(self))

        device = next((rows.device for rows in queries), torch.device("cpu"))
        share, (options, ids, places) = share_of_batch(check, _SHARED, device, gather=self.gather_distributed)
        with torch.autocast(device.type, enabled=False):
            z = [options.unit(rows) * options.scale(rows) for rows in cast(_named(queries)).values()]
            pairs = [(rows, bank.detach()) for rows, bank in zip(z, banks, strict=True)]
            # View beside view, so that whoever looks at the first anchors sees all views.
            positive = torch.stack([(rows * bank[ids]).sum(-1) for rows, bank in pairs], 1).flatten()
            unlabeled = torch.stack([self._unlabeled(rows, bank, ids, places) for rows, bank in pairs], 1)
            unlabeled = unlabeled.flatten(0, 1)
            statistics = from_logits(positive, unlabeled, None, lower=options.lower(positive), beta=options.beta)
            check_present(statistics.num_unlabeled, "ids and places")
            tau_plus = _tau_plus(statistics, unlabeled, share, options, len(z))
            losses, self._record = losses_and_record(statistics, tau_plus, options, self._record)
            return options.value(losses, share)

    def _unlabeled(self, rows: Tensor, bank: Tensor, ids: Tensor, places: Tensor) -> Tensor:
        logits = drawn_logits(rows, bank, places)
        if self.exclude_own:
            everything = (slice(0, length) for length in logits.shape)
            Absent(same=((ids, places),)).remove_(logits, *everything)
        return logits


def _named(queries: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"queries[{view}]": rows for view, rows in enumerate(queries)}


def _checked(
    queries: Sequence[Tensor], banks: Sequence[Tensor], ids: Tensor, places: Tensor, options: Options
) -> tuple[dict[str, int], tuple[Options, Tensor, Tensor]]:
    for name, given in (("queries", queries), ("banks", banks)):
        if isinstance(given, (Tensor, nn.Module)):
            raise ValueError(f"{name} must be a list, one entry for each view; got a {type(given).__name__}")
    if not queries or len(queries) != len(banks):
        raise ValueError(f"each view needs the bank of another; got {len(queries)} views and {len(banks)} banks")
    check_shape("queries[0]", queries[0], ("b", "d"), "one embedding a row")
    b, d = queries[0].shape
    check_shape("banks[0]", banks[0], ("n", d), "pass the embeddings of a bank, a row for each sample")
    n = len(banks[0])
    for view, (rows, bank) in enumerate(zip(queries, banks, strict=True)):
        check_shape(f"queries[{view}]", rows, (b, d), "all views of one batch")
        check_shape(f"banks[{view}]", bank, (n, d), "a row for each sample, in every bank")
    named = _named(queries)
    check_embeddings(named)
    dtype = working_dtype(*queries)
    check_shape("places", places, (b, "k"), "the unlabeled rows of each query")
    for name, codes, shape in (("ids", ids, (b,)), ("places", places, tuple(places.shape))):
        checked_codes(name, codes, shape, queries[0])
        if not 0 <= int(codes.min()) <= int(codes.max()) < n:
            raise ValueError(
                f"{name} must lie in 0..{n - 1}, the rows of the banks; got {int(codes.min())}..{int(codes.max())}"
            )
    for view, bank in enumerate(banks):
        _check_bank(f"banks[{view}]", bank, ids, queries[0], dtype)
    options.tau_plus_by_input(queries[0][:, 0])
    numbers = {"batch size": b, **layout(named), "number of views": len(queries)}
    return numbers | {"number of unlabeled samples": places.shape[1]}, (options, ids.long(), places.long())


def _check_bank(name: str, bank: Tensor, ids: Tensor, like: Tensor, dtype: torch.dtype) -> None:
    if bank.device != like.device or bank.dtype != dtype:
        raise ValueError(
            f"{name} must be {dtype} on {like.device}, as the queries are; got {bank.dtype} on {bank.device}: "
            "convert it with .to(...)"
        )
    length = torch.linalg.vector_norm(bank[ids], dim=1)
    if not bool(((length - 1).abs() < LENGTH_TOLERANCE).all()):
        raise ValueError(
            f"{name} must hold unit vectors; those of the queries have lengths from {float(length.min()):.3g} to "
            f"{float(length.max()):.3g}: normalise what is stored, as MemoryBank does"
        )


def _tau_plus(
    statistics: Statistics, unlabeled: Tensor, share: Share, options: Options, views: int
) -> float | Tensor:
    """One number, or one for each anchor."""
    tau_plus = options.tau_plus_by_input(statistics.positive[::views])
    if tau_plus is None:
        return options.tau_plus_followed(statistics, lambda count: unlabeled[:count].detach(), share)
    if isinstance(tau_plus, Tensor) and tau_plus.dim() > 0:
        return tau_plus.repeat_interleave(views)
    return tau_plus
