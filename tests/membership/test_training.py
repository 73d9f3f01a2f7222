"""Knowledge that a training holds: found by sample ids in every form, and whole after a checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse
from torch import Tensor, nn

from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.training import TrainingKnowledge, pack, unpack
from debiased_contrastive.training.checkpoint import load_whole, save_whole

N = 12
FORMS = ("membership", "partitions", "graph")


def knowledge(form: str) -> Knowledge:
    generator = torch.Generator().manual_seed(0)
    if form == "membership":
        return Knowledge(membership=torch.rand(N, 4, generator=generator).softmax(1))
    if form == "partitions":
        return Knowledge(partitions=torch.randint(-1, 3, (N, 5), generator=generator), quality={"mean_q": 0.1})
    dense = torch.rand(N, N, generator=generator)
    dense = torch.where(dense > 0.6, (dense + dense.T) / 2, 0.0)
    return Knowledge(
        graph=sparse.csr_array(dense.numpy().astype(np.float32)), warnings=("a doubt",), strength=0.3, reason="so"
    )


def held(form: str) -> TrainingKnowledge:
    module = TrainingKnowledge()
    module.hold(knowledge(form))
    return module


def q_of(form: str, rows: Tensor, columns: Tensor) -> Tensor:
    """One pair after the other, as the docstring of `Knowledge` defines q."""
    known = knowledge(form)
    result = torch.zeros(len(rows), len(columns))
    for place, i in enumerate(rows.tolist()):
        for other, j in enumerate(columns.tolist()):
            if known.membership is not None:
                q = sum(float(a) * float(b) for a, b in zip(known.membership[i], known.membership[j], strict=True))
            elif known.partitions is not None:
                pairs = list(zip(known.partitions[i].tolist(), known.partitions[j].tolist(), strict=True))
                q = sum(a == b != -1 for a, b in pairs) / len(pairs)
            else:
                assert known.graph is not None
                q = float(known.graph[i, j])
            result[place, other] = q
    return result


def told_q(told: dict[str, Tensor], prefix: str = "") -> Tensor:
    """The q that a loss makes of its arguments; the columns are those with the prefix."""
    if "weights" in told:
        return 1 - told["weights"]
    name = "membership" if "membership" in told else "partitions"
    rows, columns = told[name], told[prefix + name]
    if name == "membership":
        return rows @ columns.T
    return ((rows[:, None] == columns) & (rows[:, None] >= 0)).float().mean(2)


@pytest.mark.parametrize("form", FORMS)
def test_batches_and_queues_get_what_is_known_of_their_samples(form: str) -> None:
    ids, stored = torch.tensor([3, 0, 11]), torch.tensor([0, 7, 7, 2, 3])
    module = held(form)
    torch.testing.assert_close(told_q(module.of_batch(ids)), q_of(form, ids, ids))
    torch.testing.assert_close(told_q(module.of_queue(ids, stored), "negative_"), q_of(form, ids, stored))
    same = module.same_class(ids)
    assert same is not None
    torch.testing.assert_close(same, q_of(form, ids, ids))


def test_weights_have_a_column_for_the_samples_of_every_process() -> None:
    ids, everywhere = torch.tensor([3, 0]), torch.tensor([5, 6, 3, 0])
    assert held("graph").of_batch(ids, everywhere)["weights"].shape == (2, 4)
    torch.testing.assert_close(told_q(held("graph").of_batch(ids, everywhere)), q_of("graph", ids, everywhere))


@pytest.mark.parametrize("form", FORMS)
def test_a_bank_gets_all_samples_or_the_weights_of_its_places(form: str) -> None:
    ids, places = torch.tensor([3, 0]), torch.tensor([[1, 1, 5], [7, 0, 2]])
    told = held(form).of_bank(ids, places)
    if form != "graph":
        assert told.keys() == {form}
        assert len(told[form]) == N
    else:
        rows = [q_of(form, ids[i : i + 1], places[i]) for i in range(2)]
        torch.testing.assert_close(told["weights"], 1 - torch.cat(rows))


def test_nothing_is_told_before_there_is_knowledge() -> None:
    module, ids = TrainingKnowledge(), torch.arange(3)
    assert module.of_batch(ids) == module.of_queue(ids, ids) == module.of_bank(ids, ids[None].repeat(3, 1)) == {}
    assert module.same_class(ids) is None


@pytest.mark.parametrize("form", [*FORMS, "none"])
def test_a_checkpoint_holds_it(form: str, tmp_path: Path) -> None:
    module, again = (TrainingKnowledge() if form == "none" else held(form)), held("membership")
    save_whole(tmp_path / "state.pt", {"module": module.state_dict()})
    again.load_state_dict(load_whole(tmp_path / "state.pt")["module"])
    if module.knowledge is None:
        assert again.knowledge is None
        return
    before, after = module.knowledge, again.knowledge
    assert after is not None
    assert (after.quality, after.warnings) == (before.quality, before.warnings)
    assert (after.strength, after.reason) == (before.strength, before.reason)
    rows = torch.arange(N)
    assert torch.equal(after.same_class(rows, rows), before.same_class(rows, rows))
    assert len(unpack(pack(before))) == N


def as_earlier_versions_saved(given: Knowledge) -> dict[str, Any]:
    """One dict of everything, as a checkpoint had it before it held tensors alone."""
    rest = {"quality": dict(given.quality), "warnings": list(given.warnings), "strength": given.strength or 1.0}
    if given.graph is None:
        return {"membership": given.membership, "partitions": given.partitions, "reason": given.reason, **rest}
    parts = {name: torch.from_numpy(getattr(given.graph, name)) for name in ("data", "indices", "indptr")}
    return {"graph": parts, "reason": given.reason, **rest}


@pytest.mark.parametrize("form", FORMS)
def test_what_earlier_versions_saved_is_read(form: str) -> None:
    rows, module = torch.arange(N), TrainingKnowledge()
    for before in (knowledge(form), replace(knowledge(form), strength=0.3, reason="because")):
        state = as_earlier_versions_saved(before)
        module.load_state_dict({"_extra_state": state})
        assert module.knowledge is not None
        assert module.knowledge.strength == before.strength
        assert (module.knowledge.quality, module.knowledge.reason) == (before.quality, before.reason)
        assert torch.equal(module.knowledge.same_class(rows, rows), before.same_class(rows, rows))
    # Before there was a strength.
    del state["strength"], state["reason"]
    module.load_state_dict({"_extra_state": state})
    assert module.knowledge is not None
    assert (module.knowledge.strength, module.knowledge.reason) == (None, "")
    module.load_state_dict({"_extra_state": {}})
    assert module.knowledge is None


@pytest.mark.parametrize("form", FORMS)
def test_it_is_tensors_alone_that_every_format_holds(form: str, tmp_path: Path) -> None:
    method = nn.ModuleDict({"known": held(form)})
    save_file(method.state_dict(), tmp_path / "method.safetensors")
    again = held("membership" if form != "membership" else "graph")
    nn.ModuleDict({"known": again}).load_state_dict(load_file(tmp_path / "method.safetensors"))
    rows, after = torch.arange(N), again.knowledge
    assert after is not None
    assert torch.equal(after.same_class(rows, rows), knowledge(form).same_class(rows, rows))
    assert after.warnings == knowledge(form).warnings
    assert after.strength == knowledge(form).strength


@pytest.mark.parametrize("form", FORMS)
def test_some_samples_alone_keep_what_is_known_of_them(form: str) -> None:
    rows = torch.tensor([3, 0, 11])
    part = knowledge(form).of(rows)
    assert len(part) == 3
    torch.testing.assert_close(part.same_class(torch.arange(3), torch.arange(3)), q_of(form, rows, rows))
    assert part.strength == knowledge(form).strength


@pytest.mark.parametrize("form", FORMS)
def test_a_strength_that_was_chosen_is_told_with_the_knowledge(form: str) -> None:
    ids, stored, places = torch.tensor([3, 0]), torch.tensor([0, 7, 7]), torch.tensor([[1, 5], [7, 2]])
    for strength in (0.25, 1.0, None):
        module = TrainingKnowledge()
        module.hold(replace(knowledge(form), strength=strength))
        assert module.knowledge is not None
        for told in (
            module.of_batch(ids),
            module.of_queue(ids, stored),
            module.of_bank(ids, places),
            module.knowledge.arguments(ids),
        ):
            assert told.get("strength") == strength
            assert ("strength" in told) == (strength is not None)
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="strength must be at least 0 and finite"):
            replace(knowledge(form), strength=wrong)


def test_codes_are_widened_once_and_not_in_every_step() -> None:
    codes = torch.randint(-1, 3, (N, 5), dtype=torch.int32)
    module, ids, places = TrainingKnowledge(), torch.tensor([3, 0]), torch.tensor([[1], [7]])
    module.hold(Knowledge(partitions=codes))
    first, again = (module.of_bank(ids, places)["partitions"] for _ in range(2))
    assert first.dtype == torch.int64
    assert first.data_ptr() == again.data_ptr()
    assert torch.equal(first, codes.long())
    assert module.of_batch(ids)["partitions"].dtype == torch.int64
    assert module.knowledge is not None
    # What is saved stays small, and new knowledge takes the place of the old at once.
    assert pack(module.knowledge)["partitions"].dtype == torch.int32
    module.hold(Knowledge(partitions=codes + 1))
    assert torch.equal(module.of_bank(ids, places)["partitions"], codes.long() + 1)
