"""The audit on worlds whose truth is known, and beside the losses it speaks about."""

import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import debiased_contrastive as dc
from debiased_contrastive import tables
from debiased_contrastive.auditing import anchors as anchors_room
from debiased_contrastive.auditing import sample as sample_room
from debiased_contrastive.auditing.advice import round_down
from debiased_contrastive.objectives.estimator import share_of_cap
from debiased_contrastive.objectives.statistics import Statistics, from_logits, log_mean_exp
from debiased_contrastive.prior.estimate import PriorEstimate
from debiased_contrastive.report.analyses import setting_rows
from debiased_contrastive.theory.worlds import VonMisesFisherWorld, random_means

CLASSES = 5


def world(n: int = 400, *, surrogate: float | None = 4.0, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, positives and labels of five classes of one size."""
    generator = torch.Generator().manual_seed(seed)
    made = VonMisesFisherWorld(random_means(CLASSES, 32, generator), 60.0)
    x, labels = made.sample(n, generator)
    y = made.members(labels, generator) if surrogate is None else made.surrogates(x, surrogate * 60, generator)
    return x, y, labels


@pytest.mark.parametrize("temperature", [0.5, 0.1])
def test_floors_and_losses_are_those_of_the_loss_itself(temperature: float) -> None:
    """The condition of the clamp for M = 1, and every loss, beside the module's own diagnostics."""
    x, y, labels = world(240)
    found = dc.audit(x, y, labels, temperature=temperature, batch_size=240, tau_plus=0.03)
    ids = torch.arange(240)

    def loss(tau_plus: float, **codes: Tensor) -> tuple[float, dc.Diagnostics]:
        module = dc.DebiasedInfoNCELoss(temperature, tau_plus)
        value = module(x, y, x, ids=ids, negative_ids=ids, **codes)
        return float(value), module.diagnostics

    biased, seen = loss(0.0)
    assert found.biased_loss == pytest.approx(biased, rel=1e-5)
    assert found.tau_cap == pytest.approx(seen.tau_cap_median, rel=1e-5)
    # But for the rounding of rows to float32.
    assert loss(0.9999 * found.tau_safe)[1].floored <= 0.05 < loss(1.0001 * found.tau_safe)[1].floored
    assert found.unbiased_loss == pytest.approx(loss(0.0, labels=labels, negative_labels=labels)[0], rel=1e-5)
    assert found.loss_at_constant == pytest.approx(loss(found.constant)[0], rel=1e-5)
    auto = dc.DebiasedInfoNCELoss(temperature, dc.AutoTauPlus(found.prior.value, warm_up=0))
    share = share_of_cap(*_statistics(x, y, labels, temperature))
    auto.tau_plus.of_cap, auto.tau_plus.calls = share, 1  # type: ignore[union-attr]
    assert found.loss_at_auto == pytest.approx(float(auto.eval()(x, y, x, ids=ids, negative_ids=ids)), rel=1e-5)
    assert found.asked is not None
    for tau_plus, floored in [*found.floored, (found.asked.tau_plus, found.asked.floored)]:
        assert floored == pytest.approx(loss(tau_plus)[1].floored, abs=1 / 240)
    at_prior, of_prior = loss(found.prior.value)
    assert found.loss_at_prior == pytest.approx(at_prior, rel=1e-5)
    assert found.floored_at_prior == pytest.approx(of_prior.floored, abs=1 / 240)


def _statistics(x: Tensor, y: Tensor, labels: Tensor, temperature: float) -> tuple[Statistics, Tensor]:
    logits = (x @ x.T / temperature).fill_diagonal_(-math.inf)
    own = labels.unsqueeze(1) == labels
    positive = (x * y).sum(1) / temperature
    statistics = from_logits(positive, logits, None, lower=-1 / temperature, beta=0.0)
    return statistics, log_mean_exp(logits.masked_fill(own, -math.inf))[0]


def test_labels_give_the_prior_the_false_negatives_and_the_affected_classes() -> None:
    x, y, labels = world(2000)
    # Class 0 three times as large as the others.
    kept = (labels == 0) | (torch.arange(2000) % 3 == 0)
    x, y, labels = x[kept], y[kept], labels[kept]
    shares = labels.bincount().double() / len(labels)
    found = dc.audit(x, y, labels, temperature=0.5, batch_size=101)
    assert found.prior.method == "labels"
    assert found.prior.value == pytest.approx(float(shares.square().sum()), abs=0.002)
    assert found.false_negatives == tuple(100 * v for v in (found.prior.value, found.prior.low, found.prior.high))
    assert found.classes[0].name == "0"
    assert found.classes[0].share == pytest.approx(float(shares[0]))
    assert found.classes[0].false_negatives == pytest.approx(100 * float(shares[0]))
    biases = [one.bias for one in found.classes if one.bias is not None]
    assert biases == sorted(biases, reverse=True)
    # The mean over anchors is the weighted mean over classes.
    assert sum(one.share * (one.bias or 0) for one in found.classes) == pytest.approx(found.bias, rel=0.05)
    assert found.num_classes == CLASSES


def test_stand_ins_call_for_less_than_the_prior_and_true_positives_for_the_prior() -> None:
    x, y, labels = world(1500)
    stand_in = dc.audit(x, y, labels, temperature=0.5)
    assert stand_in.tau_plus == stand_in.constant == pytest.approx(stand_in.tau_eff, rel=0.05)
    assert stand_in.constant < 0.5 * stand_in.prior.value
    assert all(found.warnings for found in stand_in.priors if found.method not in ("labels", "clusters"))
    x, y, labels = world(1500, surrogate=None)
    true = dc.audit(x, y, labels, temperature=0.5)
    assert true.tau_plus == pytest.approx(0.2, abs=0.02)
    assert "tau_plus=0.19 brings the value of the loss to" in true.advice


def test_without_labels_the_unbiased_loss_is_guessed_well() -> None:
    x, y, labels = world(1500)
    seen = dc.audit(x, y, labels, temperature=0.2)
    guessed = dc.audit(x, y, temperature=0.2)
    assert guessed.prior.method == "clusters"
    assert guessed.prior.value == pytest.approx(0.2, abs=0.02)
    assert guessed.bias == pytest.approx(seen.bias, rel=0.2)
    assert guessed.constant == pytest.approx(seen.constant, rel=0.3)
    assert guessed.classes == ()
    assert any("guessed" in note for note in guessed.notes)


def test_embeddings_alone_take_the_worst_case() -> None:
    x, y, _ = world(600)
    alone, paired = (dc.audit(x, pairs, temperature=0.2, prior=0.2) for pairs in (None, y))
    assert alone.positives == "none"
    assert alone.tau_safe < paired.tau_safe
    assert [found.method for found in alone.priors] == ["given", "clusters"]
    assert alone.prior == PriorEstimate("given", 0.2, 0.2, 0.2)
    assert any("equal to their anchors" in note for note in alone.notes)


def test_labels_alone_pair_rows_of_a_class() -> None:
    x, _, labels = world(900)
    found = dc.audit(x, labels=labels, temperature=0.5)
    assert found.positives == "labels"
    assert found.tau_plus == pytest.approx(0.2, abs=0.03)


def test_places_of_pairs_are_taken_and_the_partner_is_no_unlabeled_sample() -> None:
    x, y, _ = world(120)
    both = torch.cat([x, y])
    places = torch.stack([torch.arange(120), torch.arange(120, 240)], 1)
    found = dc.audit(both, torch.cat([places, places.flip(1)]), temperature=0.1, batch_size=240, prior=0.2)
    ids = torch.arange(240)
    logits = both @ both.T / 0.1
    logits[ids, ids] = -math.inf
    logits[ids, (ids + 120) % 240] = -math.inf
    positive = torch.cat([(x * y).sum(1)] * 2) / 0.1
    # N counts the batch, as it does for the others.
    want = torch.nn.functional.softplus(logits.logsumexp(1) + math.log(239 / 238) - positive).mean()
    assert found.biased_loss == pytest.approx(float(want), rel=1e-5)
    assert found.num_anchors == 240


def test_rows_without_a_label_are_left_out() -> None:
    x, y, labels = world(600)
    part = torch.where(torch.arange(600) % 2 == 0, labels, -1)
    some, half = dc.audit(x, y, part), dc.audit(x[::2], y[::2], labels[::2])
    assert some.prior == half.prior
    assert some.biased_loss == pytest.approx(half.biased_loss, rel=0.05)
    assert any("300 of the rows that have a label" in note for note in some.notes)
    named = np.array(["", "a", "b"])[np.where(part < 0, 0, 1 + part % 2)]
    assert dc.audit(x, y, named).num_classes == 2


def test_large_files_are_sampled_and_small_ones_stand_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, labels = world(700)
    monkeypatch.setattr(sample_room, "KEPT_ROWS", 200)
    monkeypatch.setattr(anchors_room, "ENOUGH_ANCHORS", 100)
    found = dc.audit(x, y, labels, batch_size=64)
    assert "From 200 of 700 rows, drawn at random; all were checked." in found.notes
    assert 100 <= found.num_anchors <= 128
    large = dc.audit(x, y, labels, batch_size=5000)
    assert "A batch of 5,000 is represented by the 700 rows that were measured." in large.notes
    assert large.false_negatives[0] == pytest.approx(4999 * large.prior.value)


def test_the_same_from_every_format_and_from_tensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    x, y, labels = (z.float().numpy() if z.is_floating_point() else z.numpy() for z in world(300))
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", z0=x, z1=y)
    save_file({"embeddings": x}, tmp_path / "x.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join(map(str, labels)) + "\n")
    want = dc.audit(x, y, labels).to_dict()
    for source in ("x.npy", "both.npz:z0", "x.safetensors"):
        found = dc.audit(str(tmp_path / source), f"{tmp_path}/both.npz:z1", tmp_path / "labels.txt").to_dict()
        assert {**found, "source": want["source"]} == want


def test_the_page_needs_nothing_else_and_trusts_no_name(tmp_path: Path) -> None:
    x, y, labels = world(300)
    names = np.array(["<script>alert(1)</script>", "b", "c", "d", "e"])[labels]
    found = dc.audit(x, y, names, temperature=0.1)
    page = found.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == page == found.to_html()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert page.count("<figure>") == 3
    assert dc.audit(x, y).to_html().count("<figure>") == 2
    assert escape(found.advice[:20]) in page
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    densities = [sum(h.density) * (h.edges[1] - h.edges[0]) for h in found.histograms]
    assert densities == pytest.approx([1.0] * 3)


def test_the_table_shows_what_the_sentence_says() -> None:
    x, y, labels = world(300)
    for temperature in (0.5, 0.1):
        found = dc.audit(x, y, labels, temperature=temperature)
        (_, named, _), *_ = setting_rows(found.to_dict())
        if found.tau_plus == "auto":
            assert named.startswith("AutoTauPlus(prior=0.")
            assert "AutoTauPlus" in found.advice
        else:
            assert float(named) == pytest.approx(found.tau_plus, rel=0.01)
            assert f"tau_plus={round_down(found.tau_plus)}" in found.advice


@pytest.mark.parametrize("n", [50, 51, 62, 119, 598, 1198])
def test_any_number_of_rows_will_do(n: int) -> None:
    x, y, labels = world(n)
    found = dc.audit(x, y, labels, batch_size=32)
    assert len(found.priors) == 7
    assert found.num_anchors > 0


@pytest.mark.usefixtures("real_clusters")
def test_noise_has_no_prior_and_gets_no_correction() -> None:
    noise = torch.randn(400, 64, generator=torch.Generator().manual_seed(0))
    found = dc.audit(noise)
    assert found.tau_plus == 0
    assert "until the prior is known" in found.advice
    pairs = torch.randn(400, 64, generator=torch.Generator().manual_seed(1))
    paired = dc.audit(noise, pairs)
    assert paired.tau_plus == 0
    assert all(one.warnings for one in paired.priors)


@pytest.mark.usefixtures("real_clusters")
def test_one_method_that_cannot_say_anything_does_not_stop_the_others() -> None:
    x, _, labels = world(200)
    found = dc.audit(x, x, labels)
    assert found.prior.method == "labels"
    assert any(
        note.startswith("No prior by density-ratio: similarities must not all be equal") for note in found.notes
    )
    signs = torch.cat([torch.eye(60), -torch.eye(60)])
    assert dc.audit(signs, prior=0.1).prior.value == 0.1


def test_odd_input_is_read_or_refused_in_one_line() -> None:
    x, y, labels = world(100)
    whole = (127 * x).to(torch.int8)
    assert dc.audit(whole, (127 * y).to(torch.int8), prior=0.2).positives == "pairs"
    assert dc.audit(x.to(torch.bfloat16), labels=labels).prior.method == "labels"
    assert dc.audit(x.numpy().astype(np.longdouble), prior=0.2).rows == 100
    assert dc.audit(x, labels=np.array([b"a", b"", b"bc", b"bc", b"a"])[labels]).num_classes == 2
    assert dc.audit(x, y, np.array(["-1", "a", "b", "b", "a"])[labels]).num_classes == 2
    with pytest.raises(ValueError, match="no row has a positive, an unlabeled sample and a true negative"):
        dc.audit(x, labels=torch.arange(100))
    assert dc.audit(x, y, torch.arange(100), prior=0.2).unbiased_loss > 0
    flat = (127 * x[:, :2]).to(torch.int8)
    with pytest.raises(ValueError, match="may be places of pairs or positives of two features"):
        dc.audit(x[:, :2], flat)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        dc.audit(x, seed=-1)
    for temperature in (0.001, 1e6):
        assert math.isfinite(dc.audit(x, y, labels, temperature=temperature).unbiased_loss)


def bad() -> dict[str, tuple[dict[str, Any], str]]:
    x, y, labels = world(100)
    broken = x.clone()
    broken[17, 3] = math.nan
    empty = x.clone()
    empty[[5, 9]] = 0
    return {
        "flat": ({"embeddings": x.flatten()}, r"embeddings must hold numbers of shape \(rows, features\).*\(3200,\)"),
        "words": ({"embeddings": np.array([["a", "b"]] * 60)}, r"embeddings must hold numbers of shape"),
        "few": ({"embeddings": x[:49]}, r"embeddings must have at least 50 rows to say anything; got 49"),
        "nan": ({"embeddings": broken}, r"finite rows that are not zero; got 1 of 100 .* the first is row 17"),
        "zero": ({"embeddings": empty}, r"finite rows that are not zero; got 2 of 100 .* the first is row 5"),
        "pairs": ({"embeddings": x, "pairs": y[:50]}, r"pairs must hold one positive for each row of embeddings"),
        "nan pairs": ({"embeddings": x, "pairs": broken}, r"pairs must hold finite rows .* row 17"),
        "places": ({"embeddings": x, "pairs": [[0, 100]] * 60}, r"pairs of two different rows, from 0 to 99; got \[0, 100\] in line 0"),
        "same": ({"embeddings": x, "pairs": [[0, 1], [3, 3]] * 60}, r"got \[3, 3\] in line 1"),
        "few pairs": ({"embeddings": x, "pairs": [[0, 1]] * 60}, r"at least 50 different rows; got 1"),
        "labels": ({"embeddings": x, "labels": labels[:99]}, r"labels must hold one label for each of the 100 rows of embeddings; got shape \(99,\)"),
        "fractions": ({"embeddings": x, "labels": labels + 0.5}, r"labels must hold whole numbers or words"),
        "one class": ({"embeddings": x, "labels": labels * 0}, r"at least two classes .* got 1 classes of 100 rows"),
        "temperature": ({"embeddings": x, "temperature": 0.0}, r"temperature must be finite and at least 0.001; got 0.0"),
        "batch": ({"embeddings": x, "batch_size": 1}, r"batch_size must be a whole number of at least 2"),
        "prior": ({"embeddings": x, "prior": 1.0}, r"prior must lie in \(0, 1\); got 1.0"),
        "tau_plus": ({"embeddings": x, "tau_plus": -0.1}, r"tau_plus must lie in \[0, 1\); got -0.1"),
        "format": ({"embeddings": __file__}, r"must end in one of .npy, .npz, .safetensors, .parquet"),
    }  # fmt: skip


@pytest.mark.parametrize("case", bad())
def test_bad_input_gets_one_line(case: str) -> None:
    arguments, line = bad()[case]
    with pytest.raises(ValueError, match=line) as caught:
        dc.audit(**arguments)
    assert "\n" not in str(caught.value)


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'audits'"):
        _ = dc.audits


def test_a_bad_row_is_named_by_its_place_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, _ = world(100)
    x[[77, 93], 5] = math.inf
    monkeypatch.setattr(tables, "BLOCK_BYTES", 10 * x[0].numel() * 8)
    with pytest.raises(ValueError, match=r"got 2 of 100 that are not, the first is row 77"):
        dc.audit(x)
