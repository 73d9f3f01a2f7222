"""The debiased loss as open_clip calls its ClipLoss."""

from typing import Any, Literal

from open_clip.loss import ClipLoss
from torch import Tensor

from debiased_contrastive.losses.auto import AutoTauPlus
from debiased_contrastive.losses.diagnostics import Diagnostics
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.inputs import cast
from debiased_contrastive.objectives.checks import OnFloor


class DebiasedClipLoss(ClipLoss):  # type: ignore[misc]
    """Debiased InfoNCE in both directions (Eq. 8) in place of `open_clip.ClipLoss`.

    Images are anchors against all texts, texts against all images, of all processes; value and gradient, averaged
    over processes as DDP does, are those of the full batch. Products of the features are taken as they are, as the
    peer does, so the floor is 0; CLIP's models give unit vectors.

    Relations: tau_plus=0 is its peer; `DebiasedInfoNCELoss(symmetric=True)` is the loss inside, and whatever that
    can be told of a batch may be passed here.

    Args:
        tau_plus: Probability that a random caption fits an image; "auto" or `AutoTauPlus` follows training.
        on_floor: What an anchor does whose estimate is below the floor, see `contrastive_loss`.
        beta: Tilt of the unlabeled mean towards hard negatives; 0 is off.
        local_loss: Each process has its own anchors; with several processes it must be so.
        gather_with_grad: The gradient is that of the full batch; with several processes it must be so.
        cache_labels: Without effect, since there are no labels to cache.
        rank: Of this process.
        world_size: Number of processes; with more than one the features are gathered.
        use_horovod: Must be False: features are gathered by torch.distributed.
    """

    def __init__(
        self,
        tau_plus: float | Literal["auto"] | AutoTauPlus = 0.001,
        *,
        on_floor: OnFloor = "cap_tau",
        beta: float = 0.0,
        local_loss: bool = True,
        gather_with_grad: bool = True,
        cache_labels: bool = True,
        rank: int = 0,
        world_size: int = 1,
        use_horovod: bool = False,
    ) -> None:
        super().__init__(local_loss, gather_with_grad, cache_labels, rank, world_size, use_horovod)
        if use_horovod:
            raise ValueError("use_horovod must be False; got True: features are gathered by torch.distributed")
        if world_size > 1 and not (local_loss and gather_with_grad):
            raise ValueError(
                "several processes need local_loss and gather_with_grad, whose gradient is that of the full batch; "
                f"got {local_loss} and {gather_with_grad}: train with --local-loss --gather-with-grad"
            )
        self.loss = DebiasedInfoNCELoss(
            tau_plus=tau_plus,
            symmetric=True,
            on_floor=on_floor,
            beta=beta,
            normalize=False,
            gather_distributed=world_size > 1,
        )

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last call saw; computed when asked for."""
        return self.loss.diagnostics

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: float | Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        **told: Any,
    ) -> Tensor | dict[str, Tensor]:
        """The loss of images and their texts.

        Args:
            image_features: Of this process (b, d).
            text_features: Those of their texts (b, d).
            logit_scale: 1 / temperature.
            logit_bias: Added to all logits, which changes no softmax.
            output_dict: Give a dict with the name that the trainer logs.
            **told: What else is known of the batch, as `DebiasedInfoNCELoss` takes it: `ids` where captions or
                images repeat, `exclude`, `labels`, `membership`, `partitions`, `weights`.
        """
        if isinstance(logit_scale, Tensor):
            logit_scale = cast({"logit_scale": logit_scale})["logit_scale"]
        loss: Tensor = self.loss(image_features, text_features, temperature=1 / logit_scale, **told)
        if logit_bias is not None:
            # DDP wants every parameter in the graph.
            loss = loss + 0.0 * logit_bias.sum()
        return {"contrastive_loss": loss} if output_dict else loss
