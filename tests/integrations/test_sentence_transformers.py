"""Ranking losses in sentence-transformers' own trainer, beside its own losses."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes

from tests.group import in_group

pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed: it is an extra of that name"
)

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses as peers
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.util import dot_score, manhattan_sim

from debiased_contrastive.integrations.sentence_transformers import (
    CachedDebiasedMultipleNegativesRankingLoss,
    DebiasedMultipleNegativesRankingLoss,
)
from tests.integrations.sentences import WORDS, arguments, dataset, make_model, make_sentences, read

OURS: list[Callable[..., Any]] = [DebiasedMultipleNegativesRankingLoss, CachedDebiasedMultipleNegativesRankingLoss]
LONE_PAIR = "ignore:a batch of one has no unlabeled samples:UserWarning"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def differentiate(make: Callable[[SentenceTransformer], nn.Module], model: SentenceTransformer, *, columns: int,
                  labels: Tensor | None = None, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Value and gradient of a loss, with the same dropout for everyone."""
    model.zero_grad()
    sentences = {name: texts[rows] for name, texts in make_sentences(7, columns).items()}
    torch.manual_seed(3)
    value = make(model)(read(model, sentences), labels)
    value.backward()
    parts = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return value.detach(), torch.cat(parts)


def assert_same(got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor]) -> None:
    assert want[1].norm() > 1e-3, "there must be something to compare"
    assert abs(got[0] - want[0]) <= 1e-12 * abs(want[0])
    assert (got[1] - want[1]).norm() <= 1e-12 * want[1].norm()


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("is_cached", [False, True])
def test_without_a_correction_it_is_the_ranking_loss(
    folder: Path, columns: int, symmetric: bool, is_cached: bool
) -> None:
    model = make_model(folder / "dropout", dropout=0.2).train()
    directions: dict[str, Any] = {}
    if symmetric:
        directions = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    chunks = {"mini_batch_size": 3} if is_cached else {}
    peer: Any = peers.CachedMultipleNegativesRankingLoss if is_cached else peers.MultipleNegativesRankingLoss
    got = differentiate(
        lambda m: OURS[is_cached](m, 10.0, **chunks, tau_plus=0.0, symmetric=symmetric), model, columns=columns
    )
    assert_same(got, differentiate(lambda m: peer(m, 10.0, **chunks, **directions), model, columns=columns))


def test_raw_products_are_compared_too(folder: Path) -> None:
    model = make_model(folder / "model")
    got = differentiate(lambda m: OURS[0](m, 0.5, dot_score, tau_plus=0.0), model, columns=3)
    assert_same(
        got, differentiate(lambda m: peers.MultipleNegativesRankingLoss(m, 0.5, dot_score), model, columns=3)
    )


@pytest.mark.filterwarnings("ignore:labels, ids, masks or weights leave:UserWarning")
@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("margin", [{}, {"margin_strategy": "relative", "margin": 0.1}, {"margin": -0.2}])
@pytest.mark.parametrize("reads_alike", [True, False])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_guide_leaves_out_what_gist_leaves_out(
    folder: Path, columns: int, margin: dict[str, Any], reads_alike: bool, is_cached: bool
) -> None:
    model = make_model(folder / "model")
    guide = make_model(folder / f"guide{reads_alike}", seed=1, words=WORDS if reads_alike else WORDS[::-1])
    chunks = {"mini_batch_size": 3} if is_cached else {}
    peer: Any = peers.CachedGISTEmbedLoss if is_cached else peers.GISTEmbedLoss
    apart = {"contrast_anchors": False, "contrast_positives": False}
    got = differentiate(
        lambda m: OURS[is_cached](m, 10.0, **chunks, tau_plus=0.0, guide=guide, **margin), model, columns=columns
    )
    assert_same(
        got, differentiate(lambda m: peer(m, guide, 0.1, **chunks, **apart, **margin), model, columns=columns)
    )
    everything = differentiate(lambda m: OURS[0](m, 10.0, tau_plus=0.0), model, columns=columns)
    assert abs(everything[0] - got[0]) > 1e-3, "the guide must leave something out"


@pytest.mark.parametrize("is_cached", [False, True])
def test_pairs_of_one_id_do_not_repel_each_other(folder: Path, is_cached: bool) -> None:
    model, ids = make_model(folder / "model"), torch.tensor([0, 1, 2, 0, 3, 4, 0])

    def masked(features: list[dict[str, Tensor]], _: Tensor | None) -> Tensor:
        anchor, positive = (nn.functional.normalize(model(column)["sentence_embedding"]) for column in features)
        others = (ids.unsqueeze(1) == ids) & ~torch.eye(len(ids), dtype=torch.bool)
        logits = (10 * anchor @ positive.T).masked_fill(others, -torch.inf)
        return nn.functional.cross_entropy(logits, torch.arange(len(ids)))

    got = differentiate(
        lambda m: OURS[is_cached](m, 10.0, tau_plus=0.0, labels_are_ids=True), model, columns=2, labels=ids
    )
    assert_same(got, differentiate(lambda _: masked, model, columns=2))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("is_cached", [False, True])
def test_matryoshka_wraps_it(folder: Path, is_cached: bool) -> None:
    model = make_model(folder / "model")
    peer: Any = peers.CachedMultipleNegativesRankingLoss if is_cached else peers.MultipleNegativesRankingLoss

    def wrap(loss: nn.Module) -> nn.Module:
        return peers.MatryoshkaLoss(model, loss, [16, 4], [1, 2])

    got = differentiate(lambda m: wrap(OURS[is_cached](m, tau_plus=0.0)), model, columns=3)
    assert_same(got, differentiate(lambda m: wrap(peer(m)), model, columns=3))


def train(model: SentenceTransformer, loss: nn.Module, folder: Path, resume: Path | None = None,
          **changes: Any) -> SentenceTransformerTrainer:  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments(folder, **changes), train_dataset=dataset(), eval_dataset=dataset(9), loss=loss
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer


@pytest.mark.filterwarnings(LONE_PAIR)
@pytest.mark.parametrize("is_cached", [False, True])
def test_the_trainer_runs_stops_and_goes_on(folder: Path, tmp_path: Path, is_cached: bool) -> None:
    """Four batches an epoch, of which the last is one pair; the second run begins at the third step."""
    models = [make_model(folder / "dropout", dropout=0.2).float() for _ in range(2)]
    first = train(models[0], OURS[is_cached](models[0]), tmp_path, save_strategy="steps", save_steps=3)
    values = [line["loss"] for line in first.state.log_history if "loss" in line]
    assert values[3] == 0
    assert values[5] < values[0]
    train(models[1], OURS[is_cached](models[1]), tmp_path / "again", tmp_path / "checkpoint-3")
    for got, want in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.filterwarnings(LONE_PAIR)
def test_what_is_saved_is_loaded_and_its_card_says_how(folder: Path, tmp_path: Path) -> None:
    model, guide = (make_model(folder / name).float() for name in ("model", "guide"))
    loss = OURS[0](model, tau_plus=0.02, guide=guide, margin=-0.5)
    train(model, loss, tmp_path)
    model.save_pretrained(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    texts = ["the cat sees a bird", "a dog"]
    torch.testing.assert_close(torch.from_numpy(again.encode(texts)), torch.from_numpy(model.encode(texts)))
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "loss:DebiasedMultipleNegativesRankingLoss" in card
    assert "chuang2020debiased" in card
    assert '"tau_plus": 0.02' in card
    assert "tau_plus=0.02" in repr(loss)
    assert "absolute margin=-0.5" in repr(loss)
    assert loss.diagnostics.tau_plus == 0.02


@pytest.mark.filterwarnings(LONE_PAIR)
def test_evaluation_does_not_count_as_training(folder: Path, tmp_path: Path) -> None:
    model = make_model(folder / "model").float()
    loss = OURS[0](model, tau_plus="auto")
    train(model, loss, tmp_path, eval_strategy="steps", eval_steps=1)
    assert loss.objective.tau_plus.calls == 5, "six steps, one of them with a lone pair"


@pytest.mark.filterwarnings(LONE_PAIR)
@pytest.mark.parametrize("is_cached", [False, True])
def test_half_precision_is_close(folder: Path, tmp_path: Path, is_cached: bool) -> None:
    values = []
    for bf16 in (False, True):
        model = make_model(folder / "model").float()
        trainer = train(model, OURS[is_cached](model), tmp_path, bf16=bf16)
        values.append([line["loss"] for line in trainer.state.log_history if "loss" in line])
    assert values[1] == pytest.approx(values[0], abs=0.1)
    assert values[1] != values[0]


def share(rank: int, rendezvous: str, model: SentenceTransformer, guide: SentenceTransformer) -> None:
    """One of two processes: with its half of the pairs, the mean over both must be the full batch."""

    ids, half = torch.tensor([0, 1, 2, 0, 1, 3]), slice(3 * rank, 3 * rank + 3)

    def compare(make: Callable[..., Any], **settings: Any) -> None:
        want = differentiate(
            lambda m: make(m, tau_plus=0.02, **settings), model, columns=4, labels=ids, rows=slice(6)
        )
        got = differentiate(
            lambda m: make(m, gather_across_devices=True, tau_plus=0.02, **settings),
            model, columns=4, labels=ids[half], rows=half,
        )  # fmt: skip
        for part in got:
            dist.all_reduce(part)
        assert_same((got[0] / 2, got[1] / 2), want)

    def compare_all() -> None:
        for make in OURS:
            compare(make, guide=guide, symmetric=True)
            compare(make, labels_are_ids=True, beta=0.5)

    in_group(rank, 2, rendezvous, compare_all)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_processes_see_the_batch_of_one(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Forked, since each would import the library for many seconds; tokenizers must then keep to one thread.
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    models = make_model(folder / "model"), make_model(folder / "guide", seed=1)
    start_processes(share, (str(tmp_path / "rendezvous"), *models), nprocs=2, start_method="fork")


def test_gathering_alone_is_nothing(folder: Path) -> None:
    model = make_model(folder / "model")
    got = differentiate(lambda m: OURS[0](m, 20.0, gather_across_devices=True), model, columns=3)
    assert_same(got, differentiate(OURS[0], model, columns=3))


def test_mistakes_are_refused_in_one_line(folder: Path) -> None:
    model = make_model(folder / "model")
    with pytest.raises(ValueError, match="similarity_fct must be cos_sim or dot_score; got manhattan_sim"):
        OURS[0](model, 1.0, manhattan_sim)
    with pytest.raises(ValueError, match="margin_strategy must be 'absolute' or 'relative'; got 'max'"):
        OURS[0](model, guide=model, margin_strategy="max")
    with pytest.raises(ValueError, match="columns of anchors and of positives; got 1"):
        OURS[0](model)(read(model, {"anchor": ["a cat"]}))
    with pytest.raises(ValueError, match="a guide needs sentences; got embeddings alone"):
        OURS[0](model, guide=model).compute_loss_from_embeddings([torch.eye(4), torch.eye(4)])
    with pytest.raises(ValueError, match="mini-batches must not be empty; got 0"):
        OURS[1](model, mini_batch_size=0)
    static = SentenceTransformer(
        modules=[StaticEmbedding(model.tokenizer.backend_tokenizer, embedding_dim=8)], device="cpu"
    )
    with pytest.raises(ValueError, match="a StaticEmbedding has all sentences in one row"):
        OURS[1](static)
    assert OURS[0](static)(read(static, make_sentences(5, 3))).isfinite()


def test_wrappers_pass_embeddings(folder: Path) -> None:
    columns = [torch.randn(5, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    model = make_model(folder / "model")
    got = OURS[0](model, tau_plus=0.0).compute_loss_from_embeddings(columns, None)
    torch.testing.assert_close(
        got, peers.MultipleNegativesRankingLoss(model).compute_loss_from_embeddings(columns, torch.empty(0))
    )
