"""Quick-Thoughts' loss: a slow loop, the released code's, breaks, floors, scores of any size."""

import math

import pytest
import torch
from torch import Tensor, nn

from debiased_contrastive.objectives.estimator import SMALL_FLOOR
from debiased_contrastive.objectives.losses import debiased
from debiased_contrastive.text.quickthoughts import QuickThoughts, neighbours
from debiased_contrastive.text.towers import build_tower

LINKS = [[True] * 6, [True, True, False, True, False, True], [False, True, False, False, False, False]]


class Rows(nn.Module):
    """Vectors as they are: tokens are the places of rows."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows)

    def forward(self, tokens: Tensor, _lengths: Tensor) -> Tensor:
        return self.rows[tokens[:, 0]]


def method(b: int = 7, scale: float = 1.0, **settings: object) -> tuple[QuickThoughts, Tensor]:
    generator = torch.Generator().manual_seed(b)
    u, v = scale * torch.randn(2, b, 5, generator=generator)
    made = QuickThoughts(Rows(u), Rows(v), **settings)  # type: ignore[arg-type]
    return made, u @ v.T


def called(made: QuickThoughts, linked: list[bool]) -> Tensor:
    b = len(linked) + 1
    loss: Tensor = made(torch.arange(b).unsqueeze(1), torch.ones(b, dtype=torch.int64), torch.tensor(linked))
    return loss


def slow(scores: list[list[float]], linked: list[bool], tau: float, denominator: str, floor: float) -> float:
    b, of_sentence = len(scores), []
    for i in range(b):
        near = [k for k in (i - 1, i + 1) if 0 <= k < b and linked[min(i, k)]]
        losses = []
        for k in near:
            if denominator == "others":
                unlabeled = [scores[i][j] for j in range(b) if j != i and j not in near]
            else:
                unlabeled = [0.0 if j == i else scores[i][j] for j in range(b) if j != k]
            mean_u = sum(map(math.exp, unlabeled)) / len(unlabeled)
            mean_v = sum(math.exp(scores[i][j]) for j in near) / len(near)
            g = max((mean_u - tau * mean_v) / (1 - tau), floor) if tau else mean_u
            e_plus = math.exp(scores[i][k])
            losses.append(-math.log(e_plus / (e_plus + len(unlabeled) * g)))
        if losses:
            of_sentence.append(sum(losses) / len(losses))
    return sum(of_sentence) / len(of_sentence)


@pytest.mark.parametrize("linked", LINKS)
@pytest.mark.parametrize("tau", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("denominator", ["others", "original"])
def test_it_equals_the_loop(linked: list[bool], tau: float, denominator: str) -> None:
    made, scores = method(tau_plus=tau, denominator=denominator)
    assert float(called(made, linked).detach()) == pytest.approx(
        slow(scores.tolist(), linked, tau, denominator, 0.0), rel=1e-5
    )


def test_without_correction_the_original_denominator_is_the_released_cross_entropy() -> None:
    """Soft targets on both neighbours, rows normalised, diagonal set to 0: mean cross-entropy."""
    made, scores = method(9, tau_plus=0.0, denominator="original")
    targets = torch.diag(torch.ones(8), 1) + torch.diag(torch.ones(8), -1)
    targets = targets / targets.sum(1, keepdim=True)
    want = nn.functional.cross_entropy(scores.fill_diagonal_(0.0), targets)
    assert float(called(made, [True] * 8).detach()) == pytest.approx(float(want), rel=1e-5)


@pytest.mark.parametrize(("floor", "least"), [("bound", math.exp(-2)), ("zero", 0.0), ("small", math.exp(-10))])
def test_unit_vectors_have_a_temperature_and_its_floor(floor: str, least: float) -> None:
    made, _ = method(tau_plus=0.9, temperature=0.5, floor=floor)
    u, v = (nn.functional.normalize(rows.detach()) for rows in made.parameters())
    want = slow((u @ v.T / 0.5).tolist(), LINKS[0], 0.9, "others", least)
    assert float(called(made, LINKS[0]).detach()) == pytest.approx(want, rel=1e-5)
    assert made.diagnostics.floored > 0


@pytest.mark.parametrize("floor", ["zero", "small", "relative", "biased", "cap_tau"])
@pytest.mark.parametrize("scale", [1.0, 15.0])
def test_nothing_overflows_whatever_the_floor(floor: str, scale: float) -> None:
    made, scores = method(12, scale, tau_plus=0.3, floor=floor)
    assert scale == 1 or scores.abs().max() > 500
    loss = called(made, [True] * 11)
    loss.backward()
    assert loss.isfinite()
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert 0 <= made.diagnostics.floored <= 1
    assert 0 <= made.diagnostics.tau_cap_median <= 1


def test_the_floors_are_what_they_say() -> None:
    values = {}
    for floor in ("zero", "small", "relative", "biased"):
        made, scores = method(7, 2.0, tau_plus=0.5, floor=floor)
        values[floor] = float(called(made, LINKS[0]).detach())
        assert 0 < made.diagnostics.floored < 1
    small = slow(scores.tolist(), LINKS[0], 0.5, "others", math.exp(SMALL_FLOOR))
    assert values["small"] == pytest.approx(small, rel=1e-4)
    assert values["zero"] <= values["small"] <= values["biased"]
    assert values["zero"] < values["relative"] < values["biased"]


def test_gradcheck() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    made = QuickThoughts(Rows(u), Rows(v), tau_plus=0.05)  # type: ignore[arg-type]

    def loss(u: Tensor, v: Tensor) -> Tensor:
        pairs = neighbours(torch.tensor([True, True, False, True, True]))
        statistics = made._statistics(u @ v.T, pairs)
        return (debiased(statistics, 0.05, "clamp") * pairs.weight).sum()

    assert torch.autograd.gradcheck(loss, (u.requires_grad_(), v.requires_grad_()))


def test_a_batch_without_neighbours_has_no_loss_and_every_gradient() -> None:
    made, _ = method(tau_plus=0.1)
    loss = called(made, [False] * 6)
    loss.backward()
    assert loss.item() == 0
    seen = made.diagnostics
    assert (seen.floored, seen.tau_cap_median, made.biased_loss) == (0, 1, 0)
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_without_correction_the_biased_loss_is_the_loss() -> None:
    made, _ = method(tau_plus=0.0)
    loss = called(made, LINKS[1])
    assert made.biased_loss == pytest.approx(loss.item())


@pytest.mark.parametrize("name", ["gru", "bag", "transformer"])
def test_towers_see_no_padding_and_no_other_sentence(name: str) -> None:
    torch.manual_seed(0)
    made = build_tower(name, 30, 12, 8, longest=9).eval()  # type: ignore[arg-type]
    tokens = torch.randint(1, 30, (5, 6))
    lengths = torch.tensor([6, 1, 3, 2, 5])
    tokens[torch.arange(6) >= lengths.unsqueeze(1)] = 0
    together = made(tokens, lengths)
    assert together.shape == (5, made.feature_dim) == (5, 16)
    wider = made(torch.cat([tokens, torch.zeros(5, 3, dtype=torch.int64)], 1), lengths)
    torch.testing.assert_close(wider, together)
    for row, length in enumerate(lengths.tolist()):
        alone = made(tokens[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(alone[0], together[row])


def test_towers_know_the_order_of_words_or_not() -> None:
    torch.manual_seed(0)
    tokens, lengths = torch.tensor([[3, 4, 5]]), torch.tensor([3])
    for name, knows in (("gru", True), ("bag", False), ("transformer", True)):
        made = build_tower(name, 30, 12, 8, longest=9).eval()  # type: ignore[arg-type]
        same = torch.allclose(made(tokens, lengths), made(tokens.flip(1), lengths), atol=1e-6)
        assert same != knows


def test_vectors_are_both_towers_each_of_length_one() -> None:
    torch.manual_seed(0)
    made = QuickThoughts(build_tower("bag", 9, 4, 3, 5), build_tower("bag", 9, 4, 3, 5), tau_plus=0.0)
    vectors = made.vectors(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1]))
    assert vectors.shape == (2, 12)
    torch.testing.assert_close(vectors[:, :6].norm(dim=1), torch.ones(2))
    torch.testing.assert_close(vectors[:, 6:].norm(dim=1), torch.ones(2))


@pytest.mark.parametrize("tau", [0.005, 0.05, 0.3])
def test_floor_zero_stops_training_pairs_whose_biased_loss_is_below_log_of_one_plus_n_tau(tau: float) -> None:
    """One neighbour each, so M = 1: floored if and only if N mean e^u / e^s < N tau."""
    b = 40
    linked = [place % 2 == 0 for place in range(b - 1)]
    generator = torch.Generator().manual_seed(0)
    # Neighbours are alike, some more than others.
    pairs_of = torch.randn(b // 2, 5, generator=generator).repeat_interleave(2, 0)
    u, v = pairs_of + 0.5 * torch.randn(2, b, 5, generator=generator)
    made = QuickThoughts(Rows(u), Rows(v), tau_plus=tau)  # type: ignore[arg-type]
    called(made, linked).backward()
    assert made._record is not None
    statistics, weight = made._record.statistics, made._record.weights
    assert weight is not None
    biased_losses = debiased(statistics, 0.0, "clamp")
    assert made.biased_loss == pytest.approx(float((biased_losses * weight).sum()))
    below = biased_losses < math.log(1 + (b - 2) * tau)
    assert 0 < below.float().mean() < 1
    assert made.diagnostics.floored == pytest.approx(float(below.float().mean()))
    torch.testing.assert_close(debiased(statistics, tau, "clamp")[below], torch.zeros(int(below.sum())))
    # The first tower's rows of sentences whose only pair is floored get no gradient.
    pairs = neighbours(torch.tensor(linked))
    gradient = next(made.left.parameters()).grad
    assert gradient is not None
    assert not gradient[pairs.sentence[below]].any()
    assert gradient[pairs.sentence[~below]].any(1).all()
