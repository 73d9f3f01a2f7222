"""SimCLR's loss is that of the embeddings, by loops; the queue's keys are those a hand would have kept."""

import io
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from debiased_contrastive.images.simclr import QueueSimCLR, SimCLR, false_negative_rate
from debiased_contrastive.losses.info_nce import DebiasedInfoNCELoss
from debiased_contrastive.losses.nt_xent import DebiasedNTXentLoss
from tests.reference import batches

B, HIDDEN, DIM, MOMENTUM = 5, 6, 4, 0.7
LABELS = torch.tensor([0, 1, 0, 2, 1])
KNOWN = torch.tensor([0, -1, 0, 2, -1])


def encoder() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, HIDDEN), nn.Tanh()).double()


def images(count: int, seed: int = 0) -> Tensor:
    """(count, B, 3, 2, 2) views that resemble each other."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, 3, 2, 2, generator=generator, dtype=torch.float64)
    return x + 0.5 * torch.randn(count, B, 3, 2, 2, generator=generator, dtype=torch.float64)


def embedded(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """What the toy network computes with these weights, by hand."""
    hidden = torch.tanh(x.flatten(1) @ weights["encoder.1.weight"].T + weights["encoder.1.bias"])
    return hidden @ weights["projector.weight"].T + weights["projector.bias"]


def weights_of(method: nn.Module) -> dict[str, Tensor]:
    names = ("encoder.1.weight", "encoder.1.bias", "projector.weight", "projector.bias")
    return {name: method.get_parameter(name).detach().clone() for name in names}


def batch_method(**settings: Any) -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(encoder(), nn.Linear(HIDDEN, DIM).double(), DebiasedNTXentLoss(0.5, 0.1, **settings))


def queue_method(queue_size: int = 12, tau_plus: float = 0.05, momentum: float = MOMENTUM) -> QueueSimCLR:
    torch.manual_seed(0)
    projector, loss = nn.Linear(HIDDEN, DIM), DebiasedInfoNCELoss(0.5, tau_plus)
    method = QueueSimCLR(encoder(), projector, loss, queue_size=queue_size, dim=DIM, momentum=momentum)
    return method.double()


@pytest.mark.parametrize("num_positives", [1, 3])
@pytest.mark.parametrize("codes", [{}, {"labels": LABELS}, {"positive_labels": KNOWN}])
def test_the_loss_is_that_of_the_embeddings(num_positives: int, codes: dict[str, Tensor]) -> None:
    method, views = batch_method(), images(num_positives + 1)
    z = [embedded(weights_of(method), view).tolist() for view in views]
    lists: dict[str, Any] = {name: code.tolist() for name, code in codes.items()}
    want = batches.nt_xent(z, 0.5, [0.1] * B, **lists)
    assert method(views, **codes).item() == pytest.approx(sum(want) / len(want), rel=1e-10)


@pytest.mark.parametrize("num_positives", [1, 3])
def test_gradients_reach_encoder_and_projector(num_positives: int) -> None:
    method, views = batch_method(), images(num_positives + 1)
    method(views).backward()
    weights = {name: value.requires_grad_() for name, value in weights_of(method).items()}
    loss = DebiasedNTXentLoss(0.5, 0.1, kernel="dense")(*(embedded(weights, view) for view in views))
    want = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
    for name, value in method.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name
        torch.testing.assert_close(value.grad, want[name], rtol=1e-9, atol=1e-12)


def test_batch_norm_sees_all_views_together() -> None:
    norm = nn.BatchNorm1d(12).double()
    method = SimCLR(nn.Sequential(nn.Flatten(), norm), nn.Identity(), DebiasedNTXentLoss(0.5, 0.1))
    views = images(3)
    got = method(views)
    assert norm.num_batches_tracked == 1
    x = views.reshape(3 * B, 12)
    z = ((x - x.mean(0)) / (x.var(0, unbiased=False) + norm.eps).sqrt()).view(3, B, 12)
    want = batches.nt_xent(z.tolist(), 0.5, [0.1] * B)
    assert got.item() == pytest.approx(sum(want) / len(want), rel=1e-10)


class ByHand:
    """The key encoder's weights and the queue, as lists that a person would keep."""

    def __init__(self, method: QueueSimCLR, size: int) -> None:
        self.method = method
        self.keys = weights_of(method)
        self.stored: deque[tuple[list[float], int, int]] = deque(maxlen=size)

    def loss(self, views: Tensor, ids: Tensor, labels: Tensor | None, tau_plus: float) -> float:
        """Of the step that the method is about to make."""
        queries = weights_of(self.method)
        for name, value in self.keys.items():
            self.keys[name] = MOMENTUM * value + (1 - MOMENTUM) * queries[name]
        keys = [embedded(self.keys, view).tolist() for view in views[1:]]
        known = [-1] * B if labels is None else labels.tolist()
        self.stored.extend(zip(keys[0], ids.tolist(), known, strict=True))
        vectors, of_ids, of_labels = (list(column) for column in zip(*self.stored, strict=True))
        given: dict[str, Any] = {"negatives": [vectors] * B, "ids": ids.tolist(), "negative_ids": [of_ids] * B}
        if labels is not None:
            given |= {"labels": known, "negative_labels": [of_labels] * B}
        if len(keys) > 1:
            given["extra_keys"] = [[view[i] for view in keys[1:]] for i in range(B)]
        query = embedded(queries, views[0]).tolist()
        losses = batches.info_nce(query, keys[0], 0.5, [tau_plus] * B, **given)
        return sum(losses) / B


def steps(count: int) -> Iterator[tuple[int, Tensor]]:
    """Numbers of steps with the ids of their inputs, some of which come again while they are still stored."""
    for step in range(count):
        yield step, torch.tensor([0, 1, 2 + step, 10 + step // 2, 20 + step])


@pytest.mark.parametrize("num_positives", [1, 3])
@pytest.mark.parametrize("labelled", [False, True])
def test_several_steps_equal_a_queue_kept_by_hand(num_positives: int, labelled: bool) -> None:
    method = queue_method()
    hand = ByHand(method, 12)
    optimiser = torch.optim.SGD([value for value in method.parameters() if value.requires_grad], lr=0.5)
    counts = []
    for step, ids in steps(6):
        views = images(num_positives + 1, seed=step)
        labels = LABELS.roll(step) if labelled else None
        want = hand.loss(views, ids, labels, tau_plus=0.05)
        loss = method(views, ids, labels)
        assert loss.item() == pytest.approx(want, rel=1e-9), step
        counts.append(method.loss.diagnostics.num_unlabeled)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert counts[0] == B - 1
    stored = [entry[1] for entry in hand.stored]
    # All but the own ones, of which stale copies are still there.
    assert counts[-1] == pytest.approx(sum(12 - stored.count(int(i)) for i in ids) / B)
    assert max(stored.count(int(i)) for i in ids) >= 2


@pytest.mark.parametrize("num_positives", [1, 3])
def test_at_the_first_step_the_unlabeled_are_the_other_keys_of_the_batch(num_positives: int) -> None:
    method, views = queue_method(queue_size=50), images(num_positives + 1)
    weights = weights_of(method)
    query, *keys = (embedded(weights, view).tolist() for view in views)
    extra = [[view[i] for view in keys[1:]] for i in range(B)] if num_positives > 1 else None
    want = batches.info_nce(query, keys[0], 0.5, [0.05] * B, extra_keys=extra)
    assert method(views, torch.arange(B)).item() == pytest.approx(sum(want) / B, rel=1e-9)
    assert method.loss.diagnostics.num_unlabeled == B - 1
    assert method.loss.diagnostics.num_positives == num_positives
    torch.testing.assert_close(method.queue.embeddings, torch.tensor(keys[0], dtype=torch.float64))
    assert method.queue.ids.tolist() == list(range(B))
    assert method.queue.labels.tolist() == [-1] * B


def test_labels_make_it_the_oracle() -> None:
    """The prior plays no part, nor what a stored key of the own class looks like; N stays."""
    classes = torch.tensor([1, 1, 1, 1, 0])

    def losses(tau_plus: float, shift: float) -> Tensor:
        method = queue_method(tau_plus=tau_plus)
        method.loss.reduction = "none"
        first = images(2, seed=0)
        first[1, LABELS == 1] += shift
        method(first, torch.arange(B), LABELS)
        assert method.queue.labels.tolist() == LABELS.tolist()
        result: Tensor = method(images(2, seed=1), torch.arange(B) + B, classes)
        assert method.loss.diagnostics.num_unlabeled == 2 * B - 1
        return result

    plain, shifted = losses(0.05, 0.0), losses(0.05, 5.0)
    assert torch.equal(plain, losses(0.3, 0.0))
    # Class 1 does not meet the keys of class 1, class 0 does.
    assert torch.equal(plain[:4], shifted[:4])
    assert plain[4] != shifted[4]


def test_the_key_encoder_takes_no_gradient_and_moves_by_momentum() -> None:
    method, views = queue_method(), images(2)
    start = {name: value.clone() for name, value in weights_of(method).items()}
    with torch.no_grad():
        for value in (*method.encoder.parameters(), *method.projector.parameters()):
            value.add_(1)
    method(views, torch.arange(B)).backward()
    for name, value in method.named_parameters():
        if not name.startswith("key_"):
            assert value.grad is not None, name
            assert value.grad.abs().sum() > 0, name
            continue
        assert not value.requires_grad, name
        assert value.grad is None, name
        # By 1 - momentum of the way to a source that is 1 away.
        torch.testing.assert_close(value, start[name.removeprefix("key_")] + (1 - MOMENTUM))


def test_the_gradient_is_that_of_the_queries_alone() -> None:
    method, views = queue_method(), images(4)
    method(images(2, seed=1), torch.arange(B) + B)
    method(views, torch.arange(B)).backward()
    weights = {name: value.requires_grad_() for name, value in weights_of(method).items()}
    with torch.no_grad():  # the two encoders are still the same: no step was made
        key, *extra = (embedded(weights, view) for view in views[1:])
        old = embedded(weights, images(2, seed=1)[1])
    loss = DebiasedInfoNCELoss(0.5, 0.05, kernel="dense", reduction="none")
    query = embedded(weights, views[0])
    losses = []
    for i in range(B):
        negatives = torch.cat([old, key[torch.arange(B) != i]])
        more = torch.stack([view[i] for view in extra]).unsqueeze(0)
        losses.append(loss(query[i : i + 1], key[i : i + 1], negatives, extra_keys=more))
    want = torch.autograd.grad(torch.cat(losses).mean(), list(weights.values()))
    for name, gradient in zip(weights, want, strict=True):
        torch.testing.assert_close(method.get_parameter(name).grad, gradient, rtol=1e-8, atol=1e-12)


def test_in_evaluation_the_key_encoder_stands_still() -> None:
    method, views = queue_method(), images(2)
    with torch.no_grad():
        method.projector.get_parameter("weight").add_(1)
    before = method.key_projector.get_parameter("weight").clone()
    method.eval()
    method(views, torch.arange(B))
    assert torch.equal(method.key_projector.get_parameter("weight"), before)
    method.train()
    method(views, torch.arange(B))
    assert not torch.equal(method.key_projector.get_parameter("weight"), before)


def normed_method() -> QueueSimCLR:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU())
    loss = DebiasedInfoNCELoss(0.5, 0.05)
    return QueueSimCLR(network, nn.Linear(HIDDEN, DIM), loss, queue_size=12, dim=DIM, momentum=0.9)


def trained(method: QueueSimCLR, optimiser: torch.optim.Optimizer, wanted: range) -> list[float]:
    losses = []
    for step, ids in list(steps(wanted.stop))[wanted.start :]:
        loss = method(images(3, seed=step).float(), ids)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def adam(method: QueueSimCLR) -> torch.optim.Optimizer:
    return torch.optim.Adam([value for value in method.parameters() if value.requires_grad], lr=0.05)


def test_a_resumed_method_continues_bit_for_bit() -> None:
    whole = normed_method()
    want = trained(whole, adam(whole), range(8))
    first = normed_method()
    optimiser = adam(first)
    got = trained(first, optimiser, range(4))
    file = io.BytesIO()
    torch.save({"method": first.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second = normed_method()
    optimiser = adam(second)
    second.load_state_dict(saved["method"])
    optimiser.load_state_dict(saved["optimiser"])
    got += trained(second, optimiser, range(4, 8))
    assert got == want
    assert len(set(want)) == 8
    for name, value in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], value), name


@pytest.mark.parametrize("seed", range(5))
def test_false_negative_rate_is_the_share_of_pairs(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (9,), generator=generator)
    stored = torch.randint(4, (14,), generator=generator)
    pairs = [labels[i] == labels[j] for i in range(9) for j in range(9) if i != j]
    assert false_negative_rate(labels) == pytest.approx(sum(map(float, pairs)) / len(pairs), rel=1e-12)
    pairs = [labels[i] == stored[j] for i in range(9) for j in range(14)]
    assert false_negative_rate(labels, stored) == pytest.approx(sum(map(float, pairs)) / len(pairs), rel=1e-12)
