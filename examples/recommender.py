"""Popular items and repeated ones in a two-tower recommender, on purchases whose truth is known.

Users and items have hidden tastes; a purchase is drawn with probability p(item | user) ~ popularity x taste. The
items of the other purchases of a batch serve as negatives. They are there as often as they are popular, so a plain
ranking loss learns the taste and forgets popularity; `log_q` takes it back. And an item that two users of a batch
bought is a false negative of both; `ids` leaves it out. Four pairs of towers start equal and see the same batches.
Asked is how many of a user's next purchases are among the ten best items, beside the ten that sell best and the ten
that p itself puts first. Prints a table; nothing is written.
"""

import argparse

import torch
from torch import Tensor, nn

import debiased_contrastive as dc

USERS, ITEMS, TASTES, FEATURES, PURCHASES = 1000, 400, 6, 24, 40


class Shop:
    """Who buys what, and how often."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        taste = torch.randn(USERS, TASTES, generator=self.generator) @ torch.randn(
            TASTES, ITEMS, generator=self.generator
        )
        popularity = -1.2 * torch.log(1.0 + torch.randperm(ITEMS, generator=self.generator))
        self.probability = torch.softmax(popularity + 0.8 * taste, 1)
        self.bought = self.draw(PURCHASES)
        counts = self.bought.flatten().bincount(minlength=ITEMS).clamp(min=1)
        self.log_q = torch.log(counts / counts.sum())
        """Log of the probability that an item stands in a batch, counted as a shop would."""

    def draw(self, count: int) -> Tensor:
        """So many purchases of each user (USERS, count)."""
        return torch.multinomial(self.probability, count, replacement=True, generator=self.generator)

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Purchases as users (size,) and items (size,)."""
        users = torch.randint(USERS, (size,), generator=self.generator)
        return users, self.bought[users, torch.randint(PURCHASES, (size,), generator=self.generator)]


def recall(scores: Tensor, bought: Tensor, best: int = 10) -> float:
    """Share of purchases among the best items of their user, in per cent."""
    found = scores.topk(best, 1).indices
    return 100 * (bought.unsqueeze(2) == found.unsqueeze(1)).any(2).double().mean().item()


def train(seed: int, steps: int, size: int, *, log_q: bool, ids: bool) -> float:
    """The recall of two towers, an embedding for each user and one for each item."""
    shop = Shop(seed)
    torch.manual_seed(seed)
    user, item = nn.Embedding(USERS, FEATURES), nn.Embedding(ITEMS, FEATURES)
    for tower in (user, item):
        nn.init.normal_(tower.weight, std=0.3)
    # Raw products, as recommenders rank by them; what is known here needs no correction by a probability.
    loss = dc.DebiasedInfoNCELoss(temperature=1.0, tau_plus=0.0, normalize=False)
    optimizer = torch.optim.Adam([user.weight, item.weight], lr=0.03)
    for _ in range(steps):
        users, items = shop.batch(size)
        value = loss(
            user(users), item(items), ids=items if ids else None, log_q=shop.log_q[items] if log_q else None
        )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return recall((user.weight @ item.weight.T).detach(), shop.draw(20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.seeds) < 1 or arguments.batch < 2:
        parser.error("steps and seeds must be at least 1, batch at least 2")
    torch.set_num_threads(1)  # towers this small are faster on one
    seeds = range(arguments.seeds)

    def show(name: str, values: list[float]) -> None:
        each = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:<20} {each:<24} {sum(values) / len(values):>6.1f}", flush=True)

    shops = [Shop(seed) for seed in seeds]
    same = torch.stack([shop.log_q.exp().square().sum() for shop in shops]).mean()
    print(f"{ITEMS} items; two purchases are of the same one in {100 * same:.1f} % of the cases")
    print(f"{'loss':<20} {'recall@10 by seed, %':<24} {'mean':>6}")
    for name, log_q, ids in (
        ("plain", False, False), ("ids", False, True), ("log_q", True, False), ("ids and log_q", True, True),
    ):  # fmt: skip
        show(name, [train(seed, arguments.steps, arguments.batch, log_q=log_q, ids=ids) for seed in seeds])
    show("bestsellers for all", [recall(shop.log_q.expand(USERS, -1), shop.draw(20)) for shop in shops])
    show("the truth", [recall(shop.probability, shop.draw(20)) for shop in shops])


if __name__ == "__main__":
    main()
