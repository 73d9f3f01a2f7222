import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_labels
from debiased_contrastive.membership.quality import rate


def knowledge(form: str, n: int, seed: int) -> Knowledge:
    generator = torch.Generator().manual_seed(seed)
    if form == "membership":
        return Knowledge(membership=torch.rand(n, 3, generator=generator).softmax(1))
    if form == "partitions":
        return Knowledge(partitions=torch.randint(-1, 3, (n, 4), generator=generator))
    q = torch.rand(n, n, generator=generator)
    return Knowledge(graph=sparse.csr_array(torch.where(q > 0.5, q, 0.0).numpy()))


@given(st.sampled_from(["membership", "partitions", "graph"]), st.integers(2, 9), st.integers(0, 99))
def test_figures_are_those_of_a_loop_over_pairs(form: str, n: int, seed: int) -> None:
    known = knowledge(form, n, seed)
    labels = np.random.default_rng(seed).integers(-1, 3, n).tolist()
    q = known.same_class(torch.arange(n), torch.arange(n)).tolist()
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    labelled = [(i, j) for i, j in pairs if min(labels[i], labels[j]) >= 0]
    same = [q[i][j] for i, j in labelled if labels[i] == labels[j]]
    other = [q[i][j] for i, j in labelled if labels[i] != labels[j]]
    figures = rate(known, labels).quality
    assert figures["mean_q"] == pytest.approx(sum(q[i][j] for i, j in pairs) / len(pairs), abs=1e-6)
    for name, values in (("q_same", same), ("q_other", other)):
        assert (name in figures) == bool(values)
        if values:
            assert figures[name] == pytest.approx(sum(values) / len(values), abs=1e-6)
    if sum(same) + sum(other) > 0:
        assert figures["precision"] == pytest.approx(sum(same) / (sum(same) + sum(other)), abs=1e-6)
    hits = []
    for i in range(n):
        votes = [sum(q[i][j] for k, j in labelled if k == i and labels[j] == c) for c in range(3)]
        if sum(votes) > 0:
            # Every label gets float32 sums there, so votes that are equal but for rounding may go either way.
            best = sorted(votes)[-2:]
            hits.append(None if best[1] - best[0] < 1e-5 else votes.index(best[1]) == labels[i])
    if hits and None not in hits:
        assert figures["vote_accuracy"] == pytest.approx(sum(map(bool, hits)) / len(hits))


def test_all_labels_are_perfect_and_knowledge_of_wrong_classes_is_warned_of() -> None:
    labels = torch.arange(40) % 4
    figures = rate(from_labels(labels), labels).quality
    assert figures["q_same"] == figures["precision"] == figures["vote_accuracy"] == 1
    assert figures["q_other"] == 0
    wrong = rate(from_labels(torch.arange(40) // 4), labels)
    assert wrong.warnings == ("pairs of one class have no larger q than others: it would harm",)


def test_labels_of_other_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="one for each sample of 2"):
        rate(from_labels([0, 1]), [0, 1, 1])
