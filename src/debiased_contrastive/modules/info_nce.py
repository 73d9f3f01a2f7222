"""The debiased loss between queries and keys, as MoCo, CLIP, retrieval and CURL call it (Section 5)."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from debiased_contrastive.kernels.absent import Absent
from debiased_contrastive.kernels.gather import Share, check_batch, gathered, share_of_batch
from debiased_contrastive.kernels.unlabeled import Kernel, log_mean, log_mean_both
from debiased_contrastive.modules.inputs import (
    cast,
    check_codes,
    check_embeddings,
    check_present,
    check_shape,
    check_temperature,
    unit,
)
from debiased_contrastive.modules.objective import (
    Diagnostics,
    LastCall,
    Options,
    diagnostics_of,
    losses_and_record,
)
from debiased_contrastive.objectives.settings import (
    OnFloor,
    Reduction,
    check_tau_plus,
    per_anchor_tau_plus,
)
from debiased_contrastive.objectives.statistics import Statistics, log_mean_exp


class DebiasedInfoNCELoss(nn.Module):
    """Debiased InfoNCE (Eq. 8) of b queries, each with its key.

    Unlabeled are the other keys of the batch, N = b - 1, or the `negatives` of the call. M = 1 with the key
    itself as the correction's positive, unless the call brings `extra_keys`.

    Relations: tau_plus=0 is InfoNCE; symmetric=True adds the direction from keys to queries, as CLIP does;
    `DebiasedNTXentLoss` compares views of one kind among themselves. Settings are described there.

    >>> loss = DebiasedInfoNCELoss(temperature=0.5, tau_plus=0.05)
    >>> queue = torch.eye(4)[2:]
    >>> loss(torch.eye(4)[:2], torch.eye(4)[:2], negatives=queue)
    tensor(0.1652)
    """

    def __init__(
        self,
        temperature: float | Tensor = 0.1,
        tau_plus: float | Tensor = 0.1,
        *,
        symmetric: bool = False,
        on_floor: OnFloor = "clamp",
        beta: float = 0.0,
        normalize: bool = True,
        relative_floor: float = 0.0,
        gather_distributed: bool = False,
        kernel: Kernel = "auto",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature
        self.symmetric = symmetric
        self.options = Options(
            tau_plus, on_floor, beta, normalize, relative_floor, gather_distributed, kernel, reduction
        )
        self._last: LastCall | None = None

    @property
    def diagnostics(self) -> Diagnostics:
        """Of the last call."""
        return diagnostics_of(self._last)

    def extra_repr(self) -> str:
        """Show the settings when printed."""
        return f"temperature={self.temperature}, symmetric={self.symmetric}, {self.options}"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        negatives: Tensor | None = None,
        *,
        extra_keys: Tensor | None = None,
        labels: Tensor | None = None,
        negative_labels: Tensor | None = None,
        ids: Tensor | None = None,
        negative_ids: Tensor | None = None,
        tau_plus: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
    ) -> Tensor:
        """The loss of query and key (b, d); with reduction="none" (b,), or (2b,) for both directions.

        negatives: None for the other keys of the batch; (k, d) shared by all queries, as a queue; (b, k, d)
        each query's own, as from a memory bank. extra_keys (b, m - 1, d): more positives for the correction
        of the queries; keys as anchors have their query alone.
        labels (b,), with negative_labels (k,) or (b, k) beside `negatives`: the unbiased oracle (Eq. 2),
        which leaves out unlabeled samples of the anchor's class and weights the mean over the rest with N.
        ids, negative_ids of the same shapes, negative = none: samples that are the anchor itself; they do not
        exist for it, and N is smaller. tau_plus, temperature: instead of the constructor's; tau_plus a float
        or (b,), one for each pair.
        """
        embeddings = {"query": query, "key": key}
        embeddings |= {} if negatives is None else {"negatives": negatives}
        embeddings |= {} if extra_keys is None else {"extra_keys": extra_keys}
        codes = {"labels": (labels, negative_labels), "ids": (ids, negative_ids)}
        share = self._share(embeddings, codes)
        temperature = self.temperature if temperature is None else temperature
        bound = 1 / check_temperature(temperature) if self.options.normalize else math.inf
        tau_plus = self.options.tau_plus if tau_plus is None else tau_plus
        check_tau_plus(tau_plus)
        with torch.autocast(query.device.type, enabled=False):
            z = cast(embeddings)
            if self.options.normalize:
                z = {name: unit(rows) for name, rows in z.items()}
            # The scale rides on the queries, so that the product of a query and anything is a logit.
            scale = temperature.to(z["query"]) if isinstance(temperature, Tensor) else temperature
            z["query"] = z["query"] / scale
            statistics = self._statistics(z, codes, share, temperature, bound)
            tau_plus = 0.0 if labels is not None else per_anchor_tau_plus(tau_plus, z["query"][:, 0])
            if self.symmetric and isinstance(tau_plus, Tensor) and tau_plus.dim() > 0:
                tau_plus = tau_plus.repeat(2)
            losses, self._last = losses_and_record(statistics, tau_plus, self.options.on_floor)
            return self.options.value(losses, share)

    def _share(
        self, embeddings: dict[str, Tensor], codes: dict[str, tuple[Tensor | None, Tensor | None]]
    ) -> Share:
        query, negatives = embeddings["query"], embeddings.get("negatives")
        b = len(query)

        def check() -> None:
            check_shape("query", query, ("b", "d"))
            check_shape("key", embeddings["key"], tuple(query.shape))
            if negatives is not None:
                self._check_negatives(negatives, b)
            if "extra_keys" in embeddings:
                check_shape("extra_keys", embeddings["extra_keys"], (b, "m", query.shape[1]))
            check_embeddings(embeddings)
            for name, (own, of_negatives) in codes.items():
                _check_pair(name, own, of_negatives, query, negatives)

        layout = {"number of features": query.shape[-1], "use of negatives": int(negatives is not None)}
        layout |= {f"use of {name}": int(own is not None) for name, (own, _) in codes.items()}
        share = share_of_batch(b, layout, check, query.device, gather=self.options.gather_distributed)
        if negatives is None:
            check_batch(share)
        return share

    def _check_negatives(self, negatives: Tensor, b: int) -> None:
        if self.symmetric:
            raise ValueError(
                "symmetric=True contrasts within the batch in both directions and takes no negatives: "
                "pass negatives=None, or symmetric=False"
            )
        if negatives.dim() >= 2 and negatives.shape[-2] == 0:
            raise ValueError(
                f"negatives must hold at least one sample; got shape {tuple(negatives.shape)}: an empty "
                "queue must be filled first, or pass negatives=None for the first steps"
            )
        check_shape("negatives", negatives, (b, "k", "d") if negatives.dim() == 3 else ("k", "d"))

    def _statistics(
        self,
        z: dict[str, Tensor],
        codes: dict[str, tuple[Tensor | None, Tensor | None]],
        share: Share,
        temperature: float | Tensor,
        bound: float,
    ) -> Statistics:
        pairs = {
            name: (own, gathered(own, share) if of_negatives is None else of_negatives)
            for name, (own, of_negatives) in codes.items()
            if own is not None
        }
        existing = Absent() if "negatives" in z else Absent(block=1, offset=share.offset)
        if "ids" in pairs:
            existing = replace(existing, same=(_without_unknown(*pairs["ids"]),))
        unlabeled = existing
        if "labels" in pairs:
            unlabeled = replace(existing, same=(*existing.same, pairs["labels"]))
        log_mean_unlabeled, present = self._log_mean(z, unlabeled, share, bound)
        check_present(present, " and ".join(pairs))
        if "labels" in pairs:
            # Eq. 2 with Q = N: samples of the anchor's class leave the mean, not the count.
            num_columns = z["negatives"].shape[-2] if "negatives" in z else share.total
            present = existing.present(len(z["query"]), num_columns, z["query"].device)
            if isinstance(present, Tensor):
                present = (present.repeat(2) if self.symmetric else present).to(z["query"].dtype)
        positive, log_mean_positives, num_positives = self._positives(z)
        return Statistics(
            positive=positive,
            log_mean_unlabeled=log_mean_unlabeled,
            num_unlabeled=present,
            log_mean_positives=log_mean_positives,
            num_positives=num_positives,
            lower=self.options.lower(temperature, log_mean_unlabeled),
        )

    def _log_mean(
        self, z: dict[str, Tensor], absent: Absent, share: Share, bound: float
    ) -> tuple[Tensor, float | Tensor]:
        def over(rows: Tensor, columns: Tensor) -> tuple[Tensor, float | Tensor]:
            return log_mean(
                rows, columns, absent, beta=self.options.beta, bound=bound, kernel=self.options.kernel
            )

        query, key = z["query"], z["key"]
        if "negatives" in z:
            return over(query, z["negatives"])
        if not self.symmetric:
            return over(query, gathered(key, share))
        if share.is_alone:
            return log_mean_both(
                query, key, absent, beta=self.options.beta, bound=bound, kernel=self.options.kernel
            )
        queries, keys = gathered(torch.stack([query, key], 1), share).unbind(1)
        # The same samples are absent in both directions, so the counts are the same too.
        (of_query, count), (of_key, _) = over(query, keys), over(key, queries)
        return torch.cat([of_query, of_key]), count.repeat(2) if isinstance(count, Tensor) else count

    def _positives(self, z: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Logit of the numerator, log mean over the positives of the correction, their number."""
        positive = (z["query"] * z["key"]).sum(-1)
        mean, count = positive, torch.ones_like(positive)
        if "extra_keys" in z:
            more = (z["extra_keys"] @ z["query"].unsqueeze(2)).squeeze(2)
            mean, count = log_mean_exp(torch.cat([positive.unsqueeze(1), more], 1))
        if not self.symmetric:
            return positive, mean, count
        return positive.repeat(2), torch.cat([mean, positive]), torch.cat([count, torch.ones_like(count)])


def _check_pair(
    name: str, own: Tensor | None, of_negatives: Tensor | None, query: Tensor, negatives: Tensor | None
) -> None:
    """Codes of the anchors, and of the negatives where there are any: both or neither."""
    negative_name = f"negative_{name}"
    lowest = 0 if name == "labels" else -(2**63)
    if own is not None:
        check_codes(name, own, (len(query),), query, lowest=lowest)
    wanted = own is not None and negatives is not None
    if wanted != (of_negatives is not None):
        raise ValueError(
            f"{negative_name} must be given exactly when both {name} and negatives are; got "
            f"{name} {'given' if own is not None else 'missing'}, negatives "
            f"{'given' if negatives is not None else 'missing'}, {negative_name} "
            f"{'given' if of_negatives is not None else 'missing'}"
        )
    if of_negatives is not None and negatives is not None:
        check_codes(negative_name, of_negatives, tuple(negatives.shape[:-1]), query, lowest=lowest)


def _without_unknown(own: Tensor, of_columns: Tensor) -> tuple[Tensor, Tensor]:
    """Negative ids mean that nothing is known; two unknown samples are not the same one."""
    return own.clamp(min=-1), torch.where(of_columns < 0, -2, of_columns)
