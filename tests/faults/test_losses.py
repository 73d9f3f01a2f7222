"""Loss modules where strangers put them: in threads, in copies, in long loops, under other switches of Python."""

import copy
import gc
import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import debiased_contrastive as dc
from debiased_contrastive.kernels.gather import Share
from debiased_contrastive.objectives.statistics import from_logits

T = TypeVar("T")
Loss = dc.DebiasedNTXentLoss | dc.DebiasedInfoNCELoss | dc.DebiasedBankLoss
Step = tuple[Tensor, Tensor, dc.Diagnostics]
Store = dc.NegativeQueue | dc.MemoryBank

ROOT = Path(__file__).parents[2]
THREADS = 8
ROWS, WIDTH, STORED = 8, 4, 16
MIB = 2**20
STATM = Path("/proc/self/statm")


def auto() -> dc.AutoTauPlus:
    return dc.AutoTauPlus(0.2, warm_up=0)


LOSSES: dict[str, Callable[[], Loss]] = {
    "nt_xent": lambda: dc.DebiasedNTXentLoss(0.5, 0.02, on_floor="smooth", beta=0.5, reduction="sum"),
    "nt_xent, tiled": lambda: dc.DebiasedNTXentLoss(nn.Parameter(torch.tensor(0.5)), 0.02, kernel="tiled"),
    "nt_xent, auto": lambda: dc.DebiasedNTXentLoss(0.5, auto()),
    "info_nce": lambda: dc.DebiasedInfoNCELoss(0.5, torch.full((ROWS,), 0.02), normalize=False, relative_floor=0.1),
    "info_nce, auto": lambda: dc.DebiasedInfoNCELoss(0.5, auto()),
    "bank": lambda: dc.DebiasedBankLoss(0.5, 0.02, on_floor="cap_tau", exclude_own=True),
    "bank, auto": lambda: dc.DebiasedBankLoss(0.5, auto()),
}


def rows(count: int, seed: int, width: int = WIDTH) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def full_bank(size: int = STORED, width: int = WIDTH) -> dc.MemoryBank:
    """With rows that wait to be mixed in."""
    bank = dc.MemoryBank(size, width, generator=torch.Generator().manual_seed(0))
    bank.store(torch.arange(size), rows(size, 100, width))
    return bank


def full_queue(size: int = STORED, width: int = WIDTH) -> dc.NegativeQueue:
    """Which has begun to replace its oldest keys."""
    queue = dc.NegativeQueue(size, width)
    for part in rows(3 * size // 2, 101, width).split(size // 2):
        queue.enqueue(part, ids=torch.arange(size // 2), labels=torch.arange(size // 2) % 3)
    return queue


QUEUE, BANK = full_queue(), full_bank()


def value_of(loss: Loss, z: Tensor, queue: Tensor, bank: Tensor) -> Tensor:
    """The loss of rows (b, d) and a view of each; of a bank they are the first ones."""
    view = z.detach() + 0.3 * rows(len(z), 102, z.shape[1])
    value: Tensor
    match loss:
        case dc.DebiasedNTXentLoss():
            value = loss(z, view)
        case dc.DebiasedInfoNCELoss():
            value = loss(z, view, queue)
        case dc.DebiasedBankLoss():
            ids = torch.arange(len(z))
            value = loss([z, view], [bank, bank], ids=ids, places=(ids.unsqueeze(1) + 1 + ids) % len(bank))
    return value


def step(loss: Loss, seed: int) -> Step:
    """Value, gradient and diagnostics of one call."""
    z = rows(ROWS, seed).requires_grad_()
    value = value_of(loss, z, QUEUE.embeddings, BANK.embeddings)
    (gradient,) = torch.autograd.grad(value, z)
    return value.detach(), gradient, loss.diagnostics


def is_equal(found: Step, wanted: Step) -> bool:
    """To the last bit."""
    return torch.equal(found[0], wanted[0]) and torch.equal(found[1], wanted[1]) and found[2] == wanted[2]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns all the time: a race that can be lost is lost soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], T]) -> list[T]:
    """What threads return that begin at the same time; each is given its number."""
    start = Barrier(THREADS)

    def begin(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("name", LOSSES)
def test_eight_threads_get_the_values_and_gradients_of_one(name: str) -> None:
    loss = LOSSES[name]()
    step(loss, 0)
    # What follows training follows the order of calls; in evaluation it stands still.
    loss.eval()
    wanted = [step(loss, number) for number in range(THREADS)]
    for number, found in enumerate(together(lambda number: [step(loss, number) for _ in range(10)])):
        for value, gradient, diagnostics in found:
            assert torch.equal(value, wanted[number][0])
            assert torch.equal(gradient, wanted[number][1])
            # Those of the last call of anybody, but of one whole call.
            assert diagnostics in [one[2] for one in wanted]


@pytest.mark.usefixtures("hasty_threads")
def test_an_automatic_tau_plus_loses_no_call_of_any_thread() -> None:
    """It is asked without its loss, which takes so long that few calls meet."""
    following = dc.AutoTauPlus(warm_up=100_000)
    logits = rows(ROWS, 0)
    statistics = from_logits(logits[:, 0], logits, None, lower=-2.0, beta=0.0)
    share = Share((ROWS,), 0)

    def work(_number: int) -> None:
        for _ in range(2000):
            following(statistics, lambda count: logits[:count], share)

    together(work)
    assert following.calls == 2000 * THREADS


@pytest.mark.usefixtures("hasty_threads")
def test_a_queue_keeps_the_keys_of_all_threads() -> None:
    queue = dc.NegativeQueue(100 * THREADS, 2)

    def work(number: int) -> None:
        for place in range(50):
            ids = 100 * number + 2 * place + torch.arange(2)
            queue.enqueue(ids.unsqueeze(1).expand(2, 2).float(), ids=ids)

    together(work)
    assert queue.ids.sort().values.tolist() == list(range(100 * THREADS))
    assert torch.equal(queue.embeddings[:, 0].long(), queue.ids), "each key has its own id"


@pytest.mark.usefixtures("hasty_threads")
def test_a_bank_mixes_once_however_many_look() -> None:
    wanted = full_bank().embeddings
    for _ in range(15):
        bank = full_bank()
        assert all(torch.equal(seen, wanted) for seen in together(lambda _, bank=bank: bank.embeddings.clone()))  # type: ignore[misc]


def pickled(module: nn.Module) -> Any:
    return pickle.loads(pickle.dumps(module))


def saved(content: Any, *, weights_only: bool) -> Any:
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
    "torch.save": lambda module: saved(module, weights_only=False),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", LOSSES)
def test_a_copied_loss_has_all_settings_and_goes_on_alike(name: str, way: str) -> None:
    loss = LOSSES[name]()
    fresh = COPIES[way](loss)
    for number in range(3):
        assert is_equal(step(fresh, number), step(loss, number))
    used = COPIES[way](loss)
    assert str(used) == str(loss) == str(LOSSES[name]())
    assert used.diagnostics == loss.diagnostics
    for number in range(3, 15):
        assert is_equal(step(used, number), step(loss, number))


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_goes_on_from_its_state(name: str) -> None:
    loss, other = LOSSES[name](), LOSSES[name]()
    for number in range(3):
        step(loss, number)
    other.load_state_dict(saved(loss.state_dict(), weights_only=True))
    for number in range(3, 15):
        assert is_equal(step(other, number), step(loss, number))


def content(store: Store) -> list[Tensor]:
    more = [store.ids, store.labels] if isinstance(store, dc.NegativeQueue) else []
    return [store.embeddings.clone(), *more]


@pytest.mark.parametrize("way", [*COPIES, "state"])
@pytest.mark.parametrize("make", [full_queue, full_bank])
def test_a_copied_store_holds_the_same_and_goes_on_alike(make: Callable[..., Store], way: str) -> None:
    store = make()
    if way == "state":
        other = dc.NegativeQueue(STORED, WIDTH) if isinstance(store, dc.NegativeQueue) else full_bank()
        other.load_state_dict(saved(store.state_dict(), weights_only=True))
    else:
        other = COPIES[way](store)
    for number in range(3):
        assert all(map(torch.equal, content(other), content(store)))
        for one in (other, store):
            new = rows(3, number)
            one.enqueue(new) if isinstance(one, dc.NegativeQueue) else one.store(torch.arange(3), new)
    other.storage.zero_()
    assert store.storage.any(), "a copy shares no memory"


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_keeps_a_few_numbers_for_each_anchor(name: str) -> None:
    loss = LOSSES[name]()
    if isinstance(loss.tau_plus, Tensor):
        loss.tau_plus = 0.02
    queue, bank = full_queue(1024, 16), full_bank(1024, 16)
    value_of(loss, rows(512, 0, 16).requires_grad_(), queue.embeddings, bank.embeddings)
    # 1024 anchors: one row of logits for each would be 4 MiB.
    assert len(pickle.dumps(loss)) < 100_000


def test_2_000_calls_leave_nothing_behind() -> None:
    objects, memory = growth(500, 2000)
    assert objects < 100
    assert memory < 1


@pytest.mark.slow
def test_20_000_calls_leave_nothing_behind() -> None:
    objects, memory = growth(2000, 20_000)
    assert objects < 100
    assert memory < 2


def growth(first: int, last: int) -> tuple[int, float]:
    """Objects of Python and MiB of memory that come from one call to a later one, the losses taking turns."""
    if not STATM.exists():
        pytest.skip("reads its memory from Linux's /proc")
    losses, z = [make() for make in LOSSES.values()], rows(ROWS, 0).requires_grad_()
    seen = []
    for start, stop in ((0, first), (first, last)):
        for number in range(start, stop):
            value_of(losses[number % len(losses)], z, QUEUE.embeddings, BANK.embeddings).backward()
        gc.collect()
        pages = int(STATM.read_text().split()[1])
        seen.append((len(gc.get_objects()), pages * os.sysconf("SC_PAGE_SIZE") / MIB))
    return seen[1][0] - seen[0][0], seen[1][1] - seen[0][1]


@pytest.fixture
def usual_algorithms() -> Iterator[None]:
    """Again for the next test."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.usefixtures("usual_algorithms")
@pytest.mark.parametrize("name", LOSSES)
def test_deterministic_algorithms_give_the_same_bits_every_time(name: str) -> None:
    usual = LOSSES[name]()
    wanted = [step(usual, number) for number in range(3)]
    # Memory that nobody has written to is NaN from now on.
    torch.use_deterministic_algorithms(True)
    for loss in (LOSSES[name](), LOSSES[name]()):
        assert all(is_equal(step(loss, number), wanted[number]) for number in range(3))


@pytest.mark.usefixtures("usual_algorithms")
@pytest.mark.parametrize("make", [full_queue, full_bank])
def test_stores_take_deterministic_algorithms(make: Callable[..., Store]) -> None:
    wanted = content(make())
    torch.use_deterministic_algorithms(True)
    assert all(map(torch.equal, content(make()), wanted))


def of_losses() -> Any:
    """What the losses say of some batches, ready for JSON."""
    found = {}
    for name, make in LOSSES.items():
        loss = make()
        value, gradient, diagnostics = [step(loss, number) for number in range(3)][-1]
        found[name] = [float(value), gradient.tolist(), vars(diagnostics)]
    return found


def of_audit() -> Any:
    """What an audit says, and how long its page is."""
    x = rows(60, 0).numpy()
    found = dc.audit(x, x + 0.3 * rows(60, 1).numpy(), np.arange(60) % 3)
    return [found.to_dict(), len(found.to_html())]


# Slow, since without files of optimised bytecode all that is imported is compiled first.
@pytest.mark.parametrize("told", [of_losses, pytest.param(of_audit, marks=pytest.mark.slow)])
def test_python_without_asserts_and_with_warnings_as_errors_says_the_same(told: Callable[[], Any]) -> None:
    script = (
        f"import json, tests.faults.test_losses as here; print(json.dumps([__debug__, here.{told.__name__}()]))"
    )
    run = subprocess.run(
        [sys.executable, "-O", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    has_asserts, found = json.loads(run.stdout)
    assert not has_asserts
    assert found == json.loads(json.dumps(told()))
