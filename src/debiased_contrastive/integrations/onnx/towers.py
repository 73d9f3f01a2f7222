"""The towers of a sentence encoder as ONNX holds them."""

import torch
from torch import Tensor, nn

from debiased_contrastive.text.frozen import SentenceEncoder
from debiased_contrastive.text.towers import BagTower, GRUTower, TransformerTower


class Towers(nn.Module):
    """The towers of a sentence encoder, the recurrent ones by ONNX's own operator."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.towers = nn.ModuleList([_tower(tower) for tower in (encoder.towers.left, encoder.towers.right)])

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(n, d) features of sentences (n, l)."""
        return torch.cat([nn.functional.normalize(tower(tokens, lengths)) for tower in self.towers], 1)


def _tower(tower: GRUTower | BagTower | TransformerTower) -> nn.Module:
    return _Recurrent(tower) if isinstance(tower, GRUTower) else tower


class _Recurrent(nn.Module):
    """A recurrent tower as a node of the graph: lengths are an input of ONNX's GRU, which torch's packs away."""

    def __init__(self, tower: GRUTower) -> None:
        super().__init__()
        self.words, self.hidden = tower.words, tower.recurrent.hidden_size
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            both = [getattr(tower.recurrent, f"{name}_l0{direction}") for direction in ("", "_reverse")]
            # Torch has the gates in the order r, z, n, ONNX in z, r, n.
            turned = [torch.cat([part.chunk(3)[place] for place in (1, 0, 2)]) for part in both]
            self.register_buffer(name, torch.stack(turned).detach())

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        bias = torch.cat([self.get_buffer("bias_ih"), self.get_buffer("bias_hh")], 1)
        words = self.words(tokens).transpose(0, 1)
        _, last = torch.onnx.ops.symbolic_multi_out(
            "GRU",
            (words, self.get_buffer("weight_ih"), self.get_buffer("weight_hh"), bias, lengths.to(torch.int32)),
            attrs={"hidden_size": self.hidden, "direction": "bidirectional", "linear_before_reset": 1},
            dtypes=(torch.float32, torch.float32),
            shapes=((words.shape[0], 2, words.shape[1], self.hidden), (2, words.shape[1], self.hidden)),
            version=14,
        )
        return last.transpose(0, 1).flatten(1)
