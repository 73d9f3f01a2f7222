"""Neighbour graphs: a short walk on one as the probability of a common class, and its control."""

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

ELEMENTS = 2**23
"""Similarities in memory at once."""
ROUNDING = 1e-6
"""Likelihood of an end of a walk below which it may be rounding."""
REWIRINGS = 100
"""Rounds in which the random graph gets rid of loops and double edges."""


def neighbour_graph(unit: Tensor, neighbours: int) -> sparse.csr_array:
    """(n, n) 1 where one of two unit rows is among the nearest of the other; a zero row has no neighbours."""
    n, k = len(unit), min(neighbours, len(unit) - 1)
    there = unit.square().sum(1) > 0
    nearest = []
    for start in range(0, n, tile := max(1, ELEMENTS // n)):
        cosines = unit[start : start + tile] @ unit.T
        cosines[:, ~there] = -torch.inf
        cosines[torch.arange(len(cosines)), start + torch.arange(len(cosines))] = -torch.inf
        found, columns = cosines.topk(k, 1)
        nearest.append(torch.where(found > -torch.inf, columns, -1))
    columns = torch.where(there.unsqueeze(1), torch.cat(nearest), -1)
    rows, places = (columns >= 0).nonzero(as_tuple=True)
    entries = (np.ones(len(rows), np.float32), (rows.numpy(), columns[rows, places].numpy()))
    graph = sparse.csr_array(entries, shape=(n, n))
    return graph.maximum(graph.T).tocsr()


def walk(graph: sparse.csr_array, *, steps: int, certain: int, kept: int) -> sparse.csr_array:
    """q from a walk of so many steps: symmetric, 1 for the likeliest ends, falling towards 0 for the others.

    With A the graph and d its degrees, S = (D^-1/2 A D^-1/2)^steps is symmetric, and a walk that forgot its start
    has S_ij = sqrt(d_i d_j) / sum d. What is above that, R_ij, is knowledge. With r_i the `certain`-th largest of a
    row: q_ij = min(1, R_ij / sqrt(r_i r_j)). A pair is kept if it is among the `kept` largest of one of its two
    samples, so memory is at most 2 n kept entries.
    """
    n = graph.shape[0]
    degrees = graph.sum(1)
    scale = sparse.diags_array(np.maximum(degrees, 1) ** -0.5)
    forgotten = torch.from_numpy(np.sqrt(degrees / max(1, degrees.sum())).astype(np.float32))
    step = (scale @ graph @ scale).tocsr().astype(np.float32)
    found, columns = [], []
    for start in range(0, n, tile := max(1, ELEMENTS // n)):
        ends = step[start : start + tile]
        for _ in range(steps - 1):
            ends = ends @ step
        above = torch.from_numpy(ends.toarray())
        above.addr_(forgotten[start : start + tile], forgotten, alpha=-1)
        torch.threshold_(above, ROUNDING, 0.0)
        # A return to the start is no pair.
        above[torch.arange(len(above)), start + torch.arange(len(above))] = 0.0
        largest = above.topk(min(kept, n), 1)
        found.append(largest.values)
        columns.append(largest.indices)
    q, partners = torch.cat(found), torch.cat(columns)
    references = _references(q, certain)
    q = (q / (references.unsqueeze(1) * references[partners]).sqrt()).clamp_max(1.0)
    rows, places = (q > 0).nonzero(as_tuple=True)
    entries = (q[rows, places].numpy(), (rows.numpy(), partners[rows, places].numpy()))
    result = sparse.csr_array(entries, shape=graph.shape)
    return result.maximum(result.T).tocsr()


def _references(largest: Tensor, certain: int) -> Tensor:
    """(n,) the `certain`-th of the falling values of each row, or its last above 0; 1 where none is."""
    last = ((largest > 0).sum(1).clamp(1, certain) - 1).unsqueeze(1)
    references = largest.gather(1, last).squeeze(1)
    return torch.where(references > 0, references, 1.0)


def random_graph(graph: sparse.csr_array, seed: int = 0) -> sparse.csr_array:
    """The control: a graph with the same weights, every sample with as many partners, but drawn at random.

    Whatever training gains with it is no knowledge. The given graph must be symmetric. The few loops and double
    edges that a hundred rounds of exchanging partners leave in a very dense graph are dropped.
    """
    upper = sparse.triu(graph, 1).tocoo()
    first, second, n = upper.row, upper.col, graph.shape[0]
    generator = np.random.default_rng(seed)
    second = generator.permutation(second)
    for _ in range(REWIRINGS):
        if not len(bad := _not_simple(first, second, n)):
            break
        # Each bad edge exchanges its second sample with any other edge.
        others = generator.integers(len(first), size=len(bad))
        for one, other in zip(bad, others, strict=True):
            second[one], second[other] = second[other], second[one]
    simple = np.ones(len(first), bool)
    simple[_not_simple(first, second, n)] = False
    entries = (upper.data[simple], (first[simple], second[simple]))
    half = sparse.csr_array(entries, shape=graph.shape)
    return (half + half.T).tocsr()


def _not_simple(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer], n: int) -> npt.NDArray[np.intp]:
    """Places of edges from a sample to itself, and of those that were there before in either direction."""
    keys = np.minimum(first, second).astype(np.int64) * n + np.maximum(first, second)
    again = np.ones(len(keys), bool)
    again[np.unique(keys, return_index=True)[1]] = False
    return np.flatnonzero(again | (first == second))
