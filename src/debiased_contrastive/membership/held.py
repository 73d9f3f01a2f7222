"""Knowledge that a training holds: it may change while the training goes on, and is in every checkpoint."""

from typing import Any

import torch
from scipy import sparse
from torch import Tensor, nn

from debiased_contrastive.membership.knowledge import Knowledge


class HeldKnowledge(nn.Module):
    """What is known about the classes of all training samples now, as the losses ask for it; at first nothing.

    Relations: `Knowledge` is what a source returns. Here it is part of a method, so that a resumed run goes on with
    the knowledge that it stopped with. Rows are looked up by sample ids at every step, since the numbers of
    clusters mean something else once they are made anew: nothing of it is stored beside a queue's keys.

    >>> held = HeldKnowledge()
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

    def hold(self, knowledge: Knowledge | None) -> None:
        """Take new knowledge in place of the old."""
        self.knowledge = knowledge

    def same_class(self, ids: Tensor) -> Tensor | None:
        """(b, b) q of the samples of a batch; None where nothing is known."""
        if self.knowledge is None:
            return None
        return self.knowledge.same_class(ids.cpu(), ids.cpu()).to(ids.device)

    def of_batch(self, ids: Tensor, everywhere: Tensor | None = None) -> dict[str, Tensor]:
        """What a loss between the samples of a batch is told.

        Args:
            ids: Which samples they are (b,).
            everywhere: Those of all processes, if there are several.
        """
        return self._rows(ids) or self._weights(ids, ids if everywhere is None else everywhere)

    def of_queue(self, ids: Tensor, stored: Tensor) -> dict[str, Tensor]:
        """What a loss between queries (b,) and stored keys (k,) is told, by the ids of both."""
        keys = {f"negative_{name}": rows for name, rows in self._rows(stored).items()}
        return self._rows(ids) | keys or self._weights(ids, stored)

    def of_bank(self, ids: Tensor, places: Tensor) -> dict[str, Tensor]:
        """What a loss between samples (b,) and some rows of a bank (b, k) is told; the bank has all samples."""
        return self._table(ids.device) or self._weights(ids, places)

    def _rows(self, ids: Tensor) -> dict[str, Tensor]:
        return {name: table[ids] for name, table in self._table(ids.device).items()}

    def _table(self, device: torch.device) -> dict[str, Tensor]:
        """What has a row for every sample, by the name of the argument; empty for a graph."""
        known = self.knowledge
        if known is None or known.graph is not None:
            return {}
        table = known.partitions if known.membership is None else known.membership
        assert table is not None
        if table.device != device:
            # Moved once, not in every step.
            state = pack(known)
            known = self.knowledge = unpack(
                {k: v.to(device) if isinstance(v, Tensor) else v for k, v in state.items()}
            )
        tables = {"membership": known.membership, "partitions": known.partitions}
        return {name: rows for name, rows in tables.items() if rows is not None}

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

    def get_extra_state(self) -> dict[str, Any]:
        """The knowledge as tensors and numbers, which a checkpoint can hold; empty where there is none."""
        return {} if self.knowledge is None else pack(self.knowledge)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue with the knowledge that was saved."""
        self.hold(unpack(state) if state else None)


def pack(knowledge: Knowledge) -> dict[str, Any]:
    """Take knowledge apart to tensors, numbers and words."""
    graph, rest = knowledge.graph, {"quality": dict(knowledge.quality), "warnings": list(knowledge.warnings)}
    if graph is None:
        return {"membership": knowledge.membership, "partitions": knowledge.partitions, **rest}
    parts = {name: torch.from_numpy(getattr(graph, name)) for name in ("data", "indices", "indptr")}
    return {"graph": parts, **rest}


def unpack(state: dict[str, Any]) -> Knowledge:
    """Put together what `pack` took apart."""
    rest = {"quality": state["quality"], "warnings": tuple(state["warnings"])}
    if "graph" not in state:
        return Knowledge(state["membership"], state["partitions"], **rest)
    data, indices, indptr = (state["graph"][name].numpy() for name in ("data", "indices", "indptr"))
    n = len(indptr) - 1
    return Knowledge(graph=sparse.csr_array((data, indices, indptr), shape=(n, n)), **rest)
