"""What a training knows about its samples: it may change on the way, and is in every checkpoint."""

import io
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from debiased_contrastive.membership.knowledge import Knowledge


class TrainingKnowledge(nn.Module):
    """What is known about the classes of all training samples now, as the losses ask for it; at first nothing.

    Relations: `Knowledge` is what a source returns. Here it is part of a method, so that a resumed run goes on with
    the knowledge that it stopped with. Rows are looked up by sample ids at every step, since the numbers of
    clusters mean something else once they are made anew: nothing of it is stored beside a queue's keys.

    >>> held = TrainingKnowledge()
    >>> held.of_batch(torch.tensor([0, 2]))
    {}
    >>> held.hold(Knowledge(partitions=torch.tensor([[0], [1], [0]])))
    >>> held.of_batch(torch.tensor([0, 2]))
    {'partitions': tensor([[0],
            [0]])}
    """

    def __init__(self) -> None:
        super().__init__()
        self.knowledge: Knowledge | None = None
        self._tables: dict[str, Tensor] = {}

    def hold(self, knowledge: Knowledge | None) -> None:
        """Take new knowledge in place of the old."""
        self.knowledge, self._tables = knowledge, {}

    def same_class(self, ids: Tensor) -> Tensor | None:
        """(b, b) q of the samples of a batch; None where nothing is known."""
        if self.knowledge is None:
            return None
        return self.knowledge.same_class(ids.cpu(), ids.cpu()).to(ids.device)

    def of_batch(self, ids: Tensor, everywhere: Tensor | None = None) -> dict[str, Any]:
        """What a loss between the samples of a batch is told.

        Args:
            ids: Which samples they are (b,).
            everywhere: Those of all processes, if there are several.
        """
        return self._trust() | (self._rows(ids) or self._weights(ids, ids if everywhere is None else everywhere))

    def of_queue(self, ids: Tensor, stored: Tensor) -> dict[str, Any]:
        """What a loss between queries (b,) and stored keys (k,) is told, by the ids of both."""
        keys = {f"negative_{name}": rows for name, rows in self._rows(stored).items()}
        return self._trust() | (self._rows(ids) | keys or self._weights(ids, stored))

    def of_bank(self, ids: Tensor, places: Tensor) -> dict[str, Any]:
        """What a loss between samples (b,) and some rows of a bank (b, k) is told; the bank has all samples."""
        return self._trust() | (self._table(ids.device) or self._weights(ids, places))

    def _trust(self) -> dict[str, float]:
        return {} if self.knowledge is None else self.knowledge.trust

    def _rows(self, ids: Tensor) -> dict[str, Tensor]:
        return {name: table[ids] for name, table in self._table(ids.device).items()}

    def _table(self, device: torch.device) -> dict[str, Tensor]:
        """What has a row for every sample, by the name of the argument; empty for a graph."""
        known = self.knowledge
        if known is None or known.graph is not None:
            return {}
        if any(table.device != device for table in self._tables.values()) or not self._tables:
            # Once, not in every step: moved, and as the losses compute with codes, in 64 bits.
            if known.partitions is not None:
                self._tables = {"partitions": known.partitions.to(device, torch.int64)}
            elif known.membership is not None:
                self._tables = {"membership": known.membership.to(device)}
        return self._tables

    def _weights(self, ids: Tensor, others: Tensor) -> dict[str, Tensor]:
        """1 - q of samples (b,) and others: (k,) for all of them, or (b, k)."""
        if self.knowledge is None:
            return {}
        graph, rows, columns = self.knowledge.graph, ids.cpu(), others.cpu()
        assert graph is not None
        if columns.dim() == 1:
            return {"weights": self.knowledge.arguments(rows, columns)["weights"].to(ids.device)}
        # Copies, since scipy cannot broadcast memory that is torch's.
        pairs = graph[rows.unsqueeze(1).numpy().copy(), columns.numpy().copy()]
        return {"weights": 1 - torch.from_numpy(pairs.toarray()).to(ids.device)}

    def get_extra_state(self) -> Tensor:
        """The bytes of all that is known, empty where nothing is: one tensor goes into every checkpoint format."""
        file = io.BytesIO()
        if self.knowledge is not None:
            torch.save(pack(self.knowledge), file)
        # A copy, since bytes cannot be written to, of which torch warns.
        return torch.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())

    def set_extra_state(self, state: Tensor | dict[str, Any]) -> None:
        """Continue with the knowledge that was saved, also with a dict, which earlier versions wrote."""
        if isinstance(state, Tensor):
            saved = state.cpu().numpy().tobytes()
            self.hold(unpack(torch.load(io.BytesIO(saved), weights_only=True)) if saved else None)
        else:
            # There, a strength of 1 was left to the loss, and at first there was none at all.
            chosen = None if state.get("strength", 1.0) == 1 else state["strength"]
            self.hold(unpack({"reason": "", **state, "strength": chosen}) if state else None)


def pack(knowledge: Knowledge) -> dict[str, Any]:
    """Take knowledge apart to tensors, numbers and words."""
    graph = knowledge.graph
    rest = {
        "quality": dict(knowledge.quality),
        "warnings": list(knowledge.warnings),
        "strength": knowledge.strength,
        "reason": knowledge.reason,
    }
    if graph is None:
        return {"membership": knowledge.membership, "partitions": knowledge.partitions, **rest}
    parts = {name: torch.from_numpy(getattr(graph, name)) for name in ("data", "indices", "indptr")}
    return {"graph": parts, **rest}


def unpack(state: dict[str, Any]) -> Knowledge:
    """Put together what `pack` took apart."""
    rest: dict[str, Any] = {name: state[name] for name in ("quality", "strength", "reason")}
    rest["warnings"] = tuple(state["warnings"])
    if "graph" not in state:
        return Knowledge(state["membership"], state["partitions"], **rest)
    data, indices, indptr = (state["graph"][name].numpy() for name in ("data", "indices", "indptr"))
    n = len(indptr) - 1
    return Knowledge(graph=sparse.csr_array((data, indices, indptr), shape=(n, n)), **rest)
