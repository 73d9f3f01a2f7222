"""The debiased ranking loss of sentence pairs, called as sentence-transformers calls its own."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import cos_sim, is_dist_initialized, similarity_fct_name
from torch import Tensor, nn

from debiased_contrastive.integrations.sentence_transformers.guide import Features, Guide, MarginStrategy
from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.objectives.checks import OnFloor


class DebiasedMultipleNegativesRankingLoss(nn.Module):
    """Of the columns anchor, positive, negative_1, ...; with tau_plus=0 it is MultipleNegativesRankingLoss.

    Args:
        model: The model that is trained.
        scale: Inverse of the temperature.
        similarity_fct: `cos_sim`, or `dot_score` for raw embeddings, whose floor is 0.
        gather_across_devices: Sentences of all processes are unlabeled samples.
        tau_plus: Probability that a random sentence would do as the anchor's positive, or "auto".
        symmetric: Positives are anchors, too, as in MultipleNegativesSymmetricRankingLoss.
        on_floor: What an anchor does whose estimate is below the floor, see `dc.contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        guide: Leaves out what this model finds closer to the anchor than its positive, as in GISTEmbedLoss.
        margin_strategy: See `Guide.exclude`.
        margin: See there; above 0 it leaves out copies of the positive, too.
        labels_are_ids: Pairs with the same number in the label column do not repel each other.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        scale: float = 20.0,
        similarity_fct: Callable[[Tensor, Tensor], Tensor] = cos_sim,
        gather_across_devices: bool = False,
        *,
        tau_plus: float | Tensor | Literal["auto"] | AutoTauPlus = 0.01,
        symmetric: bool = False,
        on_floor: OnFloor = "cap_tau",
        beta: float = 0.0,
        guide: SentenceTransformer | None = None,
        margin_strategy: MarginStrategy = "absolute",
        margin: float = 0.0,
        labels_are_ids: bool = False,
    ) -> None:
        super().__init__()
        name = similarity_fct_name(similarity_fct)
        if name not in ("cos_sim", "dot_score"):
            raise ValueError(f"similarity_fct must be cos_sim or dot_score; got {name}: no other is corrected")
        self.model, self.guide, self.scale, self.similarity_fct = model, guide, scale, similarity_fct
        self.gather_across_devices, self.labels_are_ids = gather_across_devices, labels_are_ids
        self.objective = DebiasedInfoNCELoss(
            1 / scale, tau_plus, symmetric=symmetric, on_floor=on_floor, beta=beta, normalize=name == "cos_sim"
        )
        self.opinion = None if guide is None else Guide(guide, model, margin_strategy, margin)

    def extra_repr(self) -> str:
        """The settings that no part shows."""
        margin = "" if self.opinion is None else f", {self.opinion.margin_strategy} margin={self.opinion.margin}"
        return f"gather_across_devices={self.gather_across_devices}, labels_are_ids={self.labels_are_ids}{margin}"

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last call saw."""
        return self.objective.diagnostics

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """The loss of one batch."""
        columns = list(sentence_features)
        known = self._known(columns, labels)
        return self._value(embed_columns(self.model, columns), known)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """The loss of embeddings (b, d), one tensor for each column; wrappers such as SpladeLoss call it."""
        if self.guide is not None:
            raise ValueError("a guide needs sentences; got embeddings alone: call the loss itself, or use no guide")
        return self._value(embeddings, self._known([], labels))

    def _known(self, columns: list[Features], labels: Tensor | None) -> dict[str, Tensor | None]:
        """What is known about the pairs of this batch, as arguments of the objective."""
        self.objective.gather_distributed = gather = self.gather_across_devices and is_dist_initialized()
        exclude = None if self.opinion is None else self.opinion.exclude(columns, gather=gather)
        return {"exclude": exclude, "ids": labels if self.labels_are_ids else None}

    def _value(self, embeddings: list[Tensor], known: dict[str, Tensor | None]) -> Tensor:
        if len(embeddings) < 2:
            raise ValueError(f"there must be columns of anchors and of positives; got {len(embeddings)}")
        anchor, positive, *negatives = embeddings
        hard = torch.stack(negatives, 1) if negatives else None
        value: Tensor = self.objective(anchor, positive, hard_negatives=hard, temperature=1 / self.scale, **known)
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        settings = {
            "scale": self.scale,
            "similarity_fct": similarity_fct_name(self.similarity_fct),
            "gather_across_devices": self.gather_across_devices,
            "labels_are_ids": self.labels_are_ids,
            **{name: getattr(self.objective, name) for name in ("tau_plus", "symmetric", "on_floor", "beta")},
        }
        return settings if self.opinion is None else settings | self.opinion.get_config_dict()

    @property
    def citation(self) -> str:
        """The paper, for the model card."""
        return """
@inproceedings{chuang2020debiased,
    title={Debiased Contrastive Learning},
    author={Ching-Yao Chuang and Joshua Robinson and Yen-Chen Lin and Antonio Torralba and Stefanie Jegelka},
    booktitle={Advances in Neural Information Processing Systems}, year={2020}
}
"""
