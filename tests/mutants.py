"""Small wrong edits of the package; each must turn the suite red. `make mutants` applies them one by one.

python tests/mutants.py              all of them, after one run of the unchanged copy
python tests/mutants.py 3 17         these alone

The test that noticed a mutant is kept in tests/caught.json and tried first the next time.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/debiased_contrastive")
CAUGHT = ROOT / "tests/caught.json"
PATIENCE = 900
"""Seconds for the suite of one mutant."""

# Quick files first: most mutants fall within seconds.
CORE = ["tests/objectives", "tests/losses", "tests/negatives", "tests/kernels/test_tiled.py", "tests/kernels"]
SUITES = {
    "prior": ["tests/prior"],
    "auditing": ["tests/auditing"],
    "membership": ["tests/membership"],
    "evaluation": ["tests/evaluation"],
    "images": ["tests/images"],
    "text": ["tests/text"],
    "control": ["tests/control"],
    "training": ["tests/training"],
    "theory": ["tests/theory/test_bounds.py", "tests/theory/test_losses.py", "tests/theory/test_worlds.py"],
}
"""By room, where it is not the core's."""


@dataclass(frozen=True)
class Mutant:
    """One edit: in `path` the text `old`, which stands there exactly once, becomes `new`."""

    path: str
    old: str
    new: str
    what: str
    suite: tuple[str, ...] = ()
    """Tests that must notice, where they are not those of the room."""

    @property
    def name(self) -> str:
        """Of the log."""
        return f"{self.path}: {self.what}"


def fault(path: str, old: str, new: str, what: str, *tests: str) -> Mutant:
    """An edit that only somebody would notice who breaks things."""
    return Mutant(path, old, new, what, tuple(f"tests/faults/test_{name}" for name in tests))


MUTANTS = [
    Mutant("objectives/estimator.py", "(statistics.log_mean_unlabeled - log_tau_minus)", "statistics.log_mean_unlabeled", "1/tau_minus dropped"),
    Mutant("objectives/estimator.py", "- statistics.log_mean_unlabeled + log_tau_plus", "- statistics.log_mean_unlabeled - log_tau_plus", "sign of log tau_plus"),
    Mutant("objectives/estimator.py", "log_a = log1mexp(", "log_a = -log1mexp(", "sign of the correction"),
    Mutant("objectives/estimator.py", "floored = ~(is_positive & (log_a > statistics.lower))", "floored = ~is_positive", "floor forgotten while the estimate is positive"),
    Mutant("objectives/estimator.py", 'log_m if on_floor == "biased" else statistics.lower', "statistics.lower", "no fallback to the biased loss"),
    Mutant("objectives/estimator.py", "floored & (tau_plus > 0) if", "floored if", "floor where tau_plus is 0"),
    Mutant("objectives/estimator.py", "torch.where(is_positive, d, -1.0)", "d", "logarithm of a negative number on floored rows"),
    Mutant("objectives/estimator.py", "CAP_SHARE * largest_tau_plus(statistics)", "largest_tau_plus(statistics)", "cap without its share"),
    Mutant("objectives/estimator.py", "log_u = statistics.log_mean_unlabeled.detach()", "log_u = statistics.log_mean_unlabeled", "cap not detached"),
    Mutant("objectives/estimator.py", "+ log1mexp(gap_u) - log1mexp(gap_v)", "+ log1mexp(gap_u)", "largest tau_plus without the floor of the positives"),
    Mutant("objectives/estimator.py", "/ (1 - tau_plus)\n    x =", "\n    x =", "1/tau_minus dropped in the smooth floor"),
    Mutant("objectives/estimator.py", "torch.logaddexp(lower, log_m", "torch.maximum(lower, log_m", "smooth floor with a corner"),
    Mutant("objectives/losses.py", "(n.log() if isinstance(n, Tensor) else math.log(n)) + log_g", "log_g", "g without N"),
    Mutant("objectives/losses.py", "else log_sum) - positive", "else log_sum) + positive", "sign of the positive"),
    Mutant("objectives/losses.py", 'losses.mean() if reduction == "mean" else losses.sum()', 'losses.sum() if reduction == "mean" else losses.mean()', "reductions swapped"),
    Mutant("objectives/statistics.py", "torch.logsumexp(beta * logits, -1) if beta", "count.clamp(min=1).log() if beta", "hard weights not normalised"),
    Mutant("objectives/statistics.py", "count = present.sum(-1)", "count = torch.full_like(logits[..., 0], logits.shape[-1])", "absent samples counted"),
    Mutant("objectives/statistics.py", "torch.where((count == 0).unsqueeze(-1), 0.0, logits)", "logits", "empty rows unguarded"),
    Mutant("objectives/exact.py", "math.comb(n, k) * (-tau_plus) ** k", "(-tau_plus) ** k", "binomial coefficient of Eq. 4"),
    Mutant("objectives/exact.py", "- math.log1p(-tau_plus)", "", "1/tau_minus of Eq. 6"),
    Mutant("numerics.py", "widest = torch.float32\n", "widest = torch.bfloat16\n", "half precision inside"),
    Mutant("kernels/absent.py", "return num_columns - self.block", "return num_columns", "N off by the anchor's own block"),
    Mutant("kernels/absent.py", "start = max(rows.start + self.offset", "start = max(rows.start", "own rows of other processes"),
    Mutant("kernels/absent.py", "fill(tile, ~_equal(codes", "fill(tile, _equal(codes", "mask of known positives inverted"),
    Mutant("kernels/absent.py", "for codes in self.same:\n            tile = fill(tile, _equal(codes", "for codes in self.same:\n            tile = fill(tile, ~_equal(codes", "mask of the unbiased oracle inverted"),
    Mutant("kernels/log_mean.py", "(1 + beta, beta) if beta", "(1 + beta, 1.0) if beta", "scale of the tilt's weights"),
    Mutant("kernels/tiled.py", "if of_columns is not None and not plan.is_symmetric(i, j):", "if of_columns is not None:", "tiles on the diagonal counted twice"),
    Mutant("kernels/tiled.py", "None if plan.is_symmetric(i, j) else d_others", "d_others", "tiles on the diagonal twice in the gradient"),
    Mutant("kernels/tiled.py", "LOG2_E if self.safe else 1.0", "LOG2_E", "logarithms to base 2"),
    Mutant("kernels/two_views.py", "d_logits.diagonal(other).copy_", "d_logits.diagonal(0).copy_", "each view pulled to itself"),
    Mutant("kernels/two_views.py", "view(2, -1).sum(0)", "view(2, -1)[0]", "pull of one anchor alone"),
    Mutant("kernels/two_views.py", "torch.add(weights.unsqueeze(1), weights).mul_(tile)", "weights.unsqueeze(1) * tile", "one tile's gradient without the columns' part"),
    Mutant("kernels/two_views.py", "        own.zero_()\n", "", "an anchor among its own samples"),
    Mutant("kernels/two_views.py", "1 / len(losses) if mean", "1 / len(z0) if mean", "gradient of a mean over inputs, not anchors"),
    Mutant("losses/nt_xent.py", "2.0 * (len(z0) - 1)", "2.0 * len(z0) - 1", "mean over one view too many"),
    Mutant("kernels/two_views.py", "with without_autocast(unit.device):", "if True:", "autocast in the backward of one tile"),
    Mutant("kernels/two_views.py", "and bound <= SAFE_EXPONENT[dtype]", "", "one tile unshifted at low temperature"),
    Mutant("objectives/slopes.py", "negative = raw.clamp(min=least) if tau_plus else raw", "negative = raw", "closed form without its floor"),
    Mutant("objectives/slopes.py", "by_total *= raw > least", "pass", "closed form that pushes on the floor"),
    Mutant("objectives/slopes.py", "    raw /= 1 - tau_plus\n", "", "closed form without 1/tau_minus"),
    Mutant("objectives/slopes.py", "by_negative / (1 - tau_plus)", "by_negative * 1", "slope of the biased loss"),
    Mutant("objectives/slopes.py", "return losses, pull.addcmul_(positive, by_total, value=-tau_plus * count), by_total", "return losses, pull, by_total", "no pull of the correction"),
    Mutant("losses/nt_xent.py", "if not self.decoupled and (usual", "if (usual", "decoupled forgotten in one tile"),
    Mutant("losses/nt_xent.py", "        and options.beta == 0\n", "", "tilt forgotten in one tile"),
    Mutant("losses/nt_xent.py", "        and options.floor.rule == \"clamp\"\n", "", "rule for the floor forgotten in one tile"),
    Mutant("kernels/tiled.py", "torch.stack([scale * of_scale for scale", "torch.stack([of_scale for scale", "scale missing in the gradient"),
    Mutant("kernels/tiled.py", "out = out.nan_to_num(nan=math.nan, posinf=math.inf, neginf=math.inf)", "out = out + 0", "gradient of an empty sum"),
    Mutant("kernels/tiled.py", "torch.add(weight, of_column[j], out=part).mul_(of_scale)", "torch.mul(of_scale, weight, out=part)", "gradient without the columns' part"),
    Mutant("kernels/tiled.py", "torch.float32: 40.0", "torch.float32: 400.0", "exponentials unshifted at low temperature"),
    Mutant("kernels/tiled.py", "    with without_autocast(rows.device):\n        for i, j in plan.walk(rows, others):\n            terms = kept", "    if True:\n        for i, j in plan.walk(rows, others):\n            terms = kept", "autocast in the backward"),
    Mutant("kernels/tiled.py", "torch.add(weight, of_column[j], out=part).mul_(of_scale)", "part.copy_(of_scale.mul_(weight + of_column[j]))", "kept tile spoilt by the first backward"),
    Mutant("kernels/gather.py", "        dist.all_reduce(total, group=ctx.group)\n", "", "gradients of other processes dropped"),
    Mutant("kernels/gather.py", "len(self.sizes) * self.sizes[self.rank] / self.total", "1.0", "unequal batches unweighted"),
    Mutant("kernels/gather.py", "ctx.start, ctx.stop = share.offset * rows_per_input, share.offset * rows_per_input", "ctx.start, ctx.stop = 0, 0", "gradient slice of the first process"),
    Mutant("kernels/log_mean.py", "with without_autocast(x.device):", "with torch.no_grad():", "autocast in the backward of dense products"),
    Mutant("kernels/absent.py", "torch.searchsorted(of_column, of_row, right=True) -", "torch.searchsorted(of_column, of_row) + 1 -", "counts of equal labels"),
    Mutant("losses/nt_xent.py", "float(len(columns) - 2)", "float(len(columns) - 1)", "N off by one"),
    Mutant("losses/nt_xent.py", "for other in views[2:])] for k in (0, 1)]", "for other in views[2:])] for k in (0, 0)]", "the other anchor's extra positives"),
    Mutant("losses/nt_xent.py", "(z if z.shape[1] == 2 else z[:, :2])", "z[:, -2:]", "the wrong views as anchors"),
    Mutant("losses/nt_xent.py", "has_mates = (of_anchor >= 0) & torch.as_tensor(count > 0)", "has_mates = torch.as_tensor(count > 0)", "unknown labels match each other"),
    Mutant("losses/nt_xent.py", "is_corrected = told.labels is not None or", "is_corrected =", "oracle debiased once more"),
    Mutant("losses/nt_xent.py", "loss.view(-1, 2).T.flatten()", "loss", "order of the unreduced losses"),
    Mutant("losses/directions.py", "each.own_sample.present(", "each.own_class.present(", "the oracle's weight without the left-out samples"),
    Mutant("losses/directions.py", "_cat([mean, *of_keys])", "_cat([mean, *(mean for _ in of_keys)])", "extra keys in the other direction"),
    Mutant("losses/directions.py", "others = gather_rows(z.query, share)", "others = gather_rows(z.key, share)", "symmetric loss among keys, across processes"),
    Mutant("losses/directions.py", "(own.clamp(min=-1), torch.where(of_columns < 0, -2, of_columns))", "(own, of_columns)", "unknown ids match each other"),
    Mutant("objectives/estimator.py", "lower = -(1 / (", "lower = -1.0 + 0 * (1 / (", "floor without the temperature"),
    Mutant("objectives/estimator.py", 'cls("bound" if unit_vectors else "zero"', 'cls("zero"', "one word for raw products and unit vectors"),
    Mutant("objectives/estimator.py", "like + math.log(self.share)", "like + math.log(RELATIVE_FLOOR)", "one relative floor for all"),
    Mutant("losses/debiased.py", "(losses * record.weights).sum()", "losses.mean()", "biased loss of sentences unweighted", ("tests/text/test_quickthoughts.py",)),
    Mutant("losses/debiased.py", 'share.weight if options.reduction == "mean" else len(share.sizes)', "share.weight", "sum over processes"),
    Mutant("numerics.py", "z = z / largest", "largest = torch.ones_like(largest)", "squares of large embeddings overflow"),
    Mutant("numerics.py", "return margin < shortest and longest < 1 / margin", "return True", "norms of tiny embeddings lose digits"),
    Mutant("losses/debiased.py", "and not options.bound < LARGEST_SAFE_BOUND", "and options.bound < LARGEST_SAFE_BOUND", "overflowing products not noticed"),
    Mutant("numerics.py", "torch.addcmul(grad, result, radial, value=-1 / length**2) / norm", "grad / norm", "normalisation without its projection"),
    Mutant("negatives/queue.py", "self._pointer = (self._pointer + len(keys)) % self.size", "self._pointer = self._pointer", "the queue does not move on"),
    Mutant("negatives/queue.py", "return torch.tensor([self._pointer, self._count])", "return torch.tensor([0, self._count])", "the queue's place lost on resume"),
    Mutant("negatives/queue.py", "keys = keys[-self.size :]", "keys = keys[: self.size]", "the oldest of a large batch kept"),
    Mutant("images/transforms.py", "div_(-step.clamp(min=1))", "div_(-step)", "triangles narrower than a pixel"),
    Mutant("images/transforms.py", "centre = centre.maximum(start).minimum(start + length - 1)", "pass", "pixels beyond the box"),
    Mutant("images/transforms.py", "step * (1 - 2 * mirrored) * k", "step * (1 - mirrored) * k", "mirrored crops"),
    Mutant("images/transforms.py", "copysign_(b - g)", "copysign_(g - b)", "hue on the wrong side"),
    Mutant("images/transforms.py", "(0.2989, 0.587, 0.114)", "(0.2989, 0.578, 0.114)", "luma"),
    Mutant("images/augment.py", "3 - drawn.blurred.long())", "2 + drawn.blurred.long())", "the blurred are not together"),
    Mutant("images/augment.py", "(own % len(pixels))", "(own // 2 % len(pixels))", "views of other images"),
    Mutant("images/augment.py", "self.images, self.place[order]", "self.images, self.place", "who is who, after sorting"),
    Mutant("evaluation/geometry.py", "logits.fill_diagonal_(-math.inf)", "logits", "the own view among the others"),
    Mutant("evaluation/geometry.py", "float((counts * (counts - 1)).sum())", "float((counts * counts).sum())", "pairs of a sample with itself"),
    Mutant("images/simclr.py", "/ (b * (b - 1)))", "/ (b * b))", "the anchor among its negatives"),
    Mutant("theory/bounds.py", "return tau_plus * mean_log_ratio - jensen", "return mean_log_ratio - jensen", "Lemma 1 without tau_plus"),
    Mutant("theory/bounds.py", "- 1) / (2 * tau_minus) * joint", "- 1) / tau_minus * joint", "half of Theorem 3's constant"),
    Mutant("theory/bounds.py", "math.exp(-2 * (epsilon", "math.exp(-(epsilon", "Hoeffding's exponent"),
    Mutant("theory/generalization.py", "return largest**2 / tau_minus * math.sqrt(1", "return largest / tau_minus * math.sqrt(1", "e for e^2 in Lemma A.4"),
    Mutant("theory/worlds.py", "+ (1 - self.tau_plus) * self.q_minus", "+ self.q_minus", "a mixture that is none"),
    Mutant("theory/worlds.py", "~self.same * self.probabilities / (1 - self.tau_plus).unsqueeze(1)", "~self.same * self.probabilities", "p- that does not sum to 1"),
    Mutant("theory/worlds.py", "bessel.log() - kappa", "bessel.log()", "the scaled Bessel function taken for the plain one"),
    Mutant("theory/losses.py", "math.comb(n, k) * (-tau)", "(-tau)", "binomial coefficient of Eq. 4's expectation"),
    Mutant("theory/generalization.py", ".to(flat)).max()", ".to(flat)).mean()", "no supremum"),
    Mutant("objectives/estimator.py", "ratio = (u - minus) / (v - minus)", "ratio = (u - minus) / v", "tau_eff without the negatives in its denominator"),
    Mutant("objectives/estimator.py", "2 * centre - below", "centre - below", "mirror at another place"),
    Mutant("objectives/estimator.py", " + (prior * (1 - prior) * present).sqrt()", "", "no margin for rows with more of the class"),
    Mutant("objectives/estimator.py", "torch.maximum(trimmed, symmetric)", "trimmed", "overlap forgotten"),
    Mutant("losses/auto.py", "self.calls > self.warm_up and (self.calls - self.warm_up)", "(self.calls - self.warm_up)", "untrained embeddings are looked at"),
    Mutant("objectives/estimator.py", ".clamp(max=prior)", "", "tau_plus above the prior"),
    Mutant("losses/auto.py", "AVERAGE_DECAY * self.of_cap + (1 - AVERAGE_DECAY) * now", "now", "no moving average"),
    Mutant("losses/auto.py", "self.calls, self.of_cap = state", "_, self.of_cap = state", "calls not restored"),
    Mutant("losses/auto.py", "is_training = self.training and torch.is_grad_enabled()", "is_training = True", "evaluation counts"),
    Mutant("kernels/gather.py", "return float(total) / len(share.sizes)", "return value", "every process its own share"),
    Mutant("prior/labels.py", "(4 * (n - 2) * z1 + 2 * z2)", "(2 * z2)", "variance of uneven classes"),
    Mutant("prior/labels.py", "np.where(codes < 0, together, rho[codes])", "rho[codes]", "unknown classes take the last one's share"),
    Mutant("prior/mixture.py", 'side="left")\n    q_p', 'side="right")\n    q_p', "ties not counted"),
    Mutant("prior/mixture.py", "alpha_plus * beta_plus / rest, beta_plus / rest", "alpha_plus, beta_plus", "noise of the positives forgotten"),
    Mutant("prior/mixture.py", "np.minimum(1, alpha * ratio)", "(alpha * ratio)", "posteriors above one"),
    Mutant("prior/mixture.py", "    if mean < LOWEST_MEAN_RATIO:", "    if mean < 0:", "stand-ins not noticed"),
    Mutant("prior/mixture.py", "    if implied > 1.1:", "    if implied > 1e9:", "more than the similarities allow"),
    Mutant("prior/clusters.py", "best - (1 - NEARLY_BEST) * abs(best)", "best", "interval of one number of clusters"),
    Mutant("auditing/anchors.py", "(sample.index[rows].unsqueeze(1) == index) | (sample", "(sample", "an anchor among its unlabeled samples"),
    Mutant("auditing/anchors.py", "num_unlabeled=float(batch_size - 1)", "num_unlabeled=float(batch_size)", "N one too large"),
    Mutant("auditing/anchors.py", "logits.masked_fill(same, -math.inf)", "logits", "unbiased loss with false negatives"),
    Mutant("auditing/audit.py", "math.floor(SAFE_FLOORED_SHARE * len(tau_cap))", "math.floor((1 - SAFE_FLOORED_SHARE) * len(tau_cap))", "largest safe tau_plus from the wrong end"),
    Mutant("objectives/estimator.py", "- log_m).detach()", "- log_m)", "gradients through the correction"),
    Mutant("auditing/advice.py", "and by_auto > by_constant", "", "auto advised where it is worse"),
    Mutant("auditing/advice.py", "math.floor(value / unit", "round(value / unit", "advice rounded up past what is safe"),
    Mutant("auditing/sources.py", "rows[np.argsort(order)]", "rows[order]", "knowledge of other rows"),
    Mutant("auditing/advice.py", " and each.name != OWN]", "]", "own clusters advised, from which no training gained"),
    Mutant("auditing/advice.py", "* math.exp(part *", "* math.exp(0 *", "labels for half without the part between"),
    Mutant("membership/force.py", "(strength * part.q).clamp(max=1)", "strength * part.q", "negative weights"),
    Mutant("membership/force.py", "force - (force * self.z).sum(1, keepdim=True) * self.z if", "force if", "force along the anchor counted"),
    Mutant("membership/force.py", ".clamp(max=1).index_put(own, torch.tensor(0.0, dtype=z.dtype))", ".clamp(max=1)", "largest q of a sample with itself"),
    Mutant("membership/force.py", "left = 1 - strength * self.level", "left = 1 - 0 * self.level", "weights not divided by their sum"),
    Mutant("membership/strength.py", "if hardness < HARD_FROM:", "if hardness > HARD_FROM:", "hard clusters at full strength"),
    Mutant("auditing/audit.py", "or not prior.warnings:", "or True:", "first estimate believed whatever speaks against it"),
    Mutant("auditing/sample.py", "first = start + int(wrong.argmax())", "first = int(wrong.argmax())", "row number within its block"),
    Mutant("auditing/sample.py", "np.isfinite(squares) & (squares > 0)", "np.isfinite(squares)", "rows of zeros"),
    Mutant("text/quickthoughts.py", "1 / (count[sentence] * (count > 0).sum()).float()", "1 / (count > 0).sum().float() + 0 * count[sentence]", "sentences with two neighbours count twice"),
    Mutant("text/quickthoughts.py", "unlabeled = rows.masked_fill(distance == 0, 0.0)", "unlabeled = rows.masked_fill(distance == 0, -math.inf)", "the original's diagonal"),
    Mutant("text/quickthoughts.py", "near = (distance == 0) | (pairs", "near = (pairs", "a sentence among its own unlabeled samples"),
    Mutant("text/corpus.py", "self.held_out + size * int(", "size * int(", "held-out sentences trained on"),
    Mutant("text/corpus.py", "~self.starts[start + 1 : start + size]", "~self.starts[start : start + size - 1]", "breaks one sentence early"),
    Mutant("text/vocabulary.py", "PADDING, UNKNOWN, FIRST = 0, 1, 2", "PADDING, UNKNOWN, FIRST = 1, 1, 2", "padding is the unknown word"),
    Mutant("text/towers.py", "back = lengths - 1 - forth", "back = longest - 1 - forth", "the way back begins in the padding"),
    Mutant("text/towers.py", "d.mul_(z[:, at]).baddbmm_(parts[:, at, : 3 * hidden], w_hh)", "d.mul_(z[:, at])", "no gradient through time"),
    Mutant("text/towers.py", "recurrent * r * (1 - r) * of_c", "r * (1 - r) * of_c", "gradient of the reset gate"),
    Mutant("text/towers.py", "[order.sentence.argsort()]", "[order.sentence]", "states in another order than the sentences"),
    Mutant("text/tasks.py", "torch.cat([(u - v).abs(), u * v], 1)", "torch.cat([u - v, u * v], 1)", "features of pairs depend on their order"),
    Mutant("text/vocabulary.py", "place is None or found.known[place]", "place is None", "the last of two vectors of a word"),
    Mutant("text/tasks.py", "found[\"tasks\"] if isinstance(found.get(\"tasks\"), dict) else {}", "{}", "scores of other tasks lost"),
    Mutant("control/sac.py", "gamma * discounts * (values.amin(0)", "gamma * discounts * (values.mean(0)", "the mean of two critics in the target"),
    Mutant("control/sac.py", "rewards + gamma * discounts *", "rewards + gamma *", "a task that is over goes on"),
    Mutant("control/sac.py", "(-log_densities - target_entropy)", "(log_densities - target_entropy)", "sign of the entropy"),
    Mutant("control/agent.py", "[self.target_encoder(other) for other in others]", "[self.encoder(other) for other in others]", "keys of the encoder that learns"),
    Mutant("control/agent.py", "self.target_critics(self.target_encoder(following), action)", "self.critics(self.encoder(following), action)", "targets of the critics that learn"),
    Mutant("control/agent.py", "momentum_update_(self.target_encoder, self.encoder, 1 - self.settings.encoder_rate)", "momentum_update_(self.target_encoder, self.encoder, 1 - self.settings.critic_rate)", "one rate for all target networks"),
    Mutant("control/agent.py", '"actor": adam(self.actor_head, self.policy),', '"actor": adam(self.actor_head, self.policy, self.critics),', "the policy's loss trains the critics"),
    Mutant("control/replay.py", "self._stacks((places + 1) % self.capacity)", "self._stacks(places)", "what was seen next is what was seen"),
    Mutant("control/replay.py", ".clamp(max=self.stack - 1) <= order", ".clamp(max=self.stack - 1) <= order + 1", "a stack whose oldest frame is overwritten"),
    Mutant("control/networks.py", "        if strided > 1:", "        if strided > 9:", "strides look past what is thin"),
    Mutant("control/replay.py", "replay.rows(max(saved - 1, 0))", "replay.rows(saved)", "the last frame of a piece without its action"),
    Mutant("control/rollout.py", "for action in self.replay.episode_actions():", "for action in self.replay.episode_actions()[:-1]:", "an episode played again one step short"),
    Mutant("control/rollout.py", '"episode", self.episode)', '"episode", 0)', "every episode the same"),
    Mutant("control/rollout.py", '"frames", "episode", "is_running", "gained", "last_return", "measured"', '"frames", "episode", "is_running", "gained", "last_return"', "means forget what was before the cut"),
    Mutant("control/rollout.py", 'make_generator(self.settings.seed, "draw", update)', 'make_generator(self.settings.seed, "draw", 0)', "always the same places of the replay"),
    Mutant("control/rollout.py", "camera.crop), explore=False)", "camera.crop), explore=True)", "evaluation by drawn actions"),
    Mutant("control/rollout.py", "found.reward, found.discount, self._render()", "found.reward, float(not found.is_last), self._render()", "a limit of time is an end"),
    Mutant("control/rollout.py", "self.frames += found.frames", "self.frames += self.task.repeat", "frames after the end of an episode counted"),
    Mutant("control/rollout.py", "acts = step >= self.settings", "acts = step > self.settings", "one random step too many"),
    Mutant("control/rollout.py", "kept + kept // (EPISODE // task.repeat) + 1 + camera.stack", "kept + 1", "no room for the first frames of episodes"),
    Mutant("control/rollout.py", "derive_seed(settings.seed, name, number)", "derive_seed(settings.seed, name, 0)", "one episode ten times"),
    Mutant("training/loop.py", "seconds = time.perf_counter() - self.start\n        values = self.learner.measure(step - self.step, seconds)", "values = self.learner.measure(step - self.step, 1.0)\n        values = self.learner.measure(step - self.step, time.perf_counter() - self.start)", "evaluation counts as training", ("tests/control/test_run.py",)),
    Mutant("control/replay.py", "if replay.count == saved:", "if replay.count < saved:", "a piece overwritten by its last frame"),
    Mutant("control/task.py", "discount = 1.0 if found.discount is None else float(found.discount)", "discount = 1.0", "a task that is over goes on"),
    Mutant("control/task.py", "self.low + (np.clip(action.numpy(), -1, 1) + 1) / 2 * (self.high - self.low)", "np.clip(action.numpy(), -1, 1)", "actions not brought to their limits"),
    Mutant("control/agent.py", "self.target_entropy = -float(action_dim)", "self.target_entropy = 0.0", "another entropy wanted"),
    Mutant("control/agent.py", "betas=(0.5, 0.999)", "betas=(0.9, 0.999)", "another momentum of the weight of entropy"),
    Mutant("control/sac.py", "LOG_STD_BOUNDS = (-10.0, 2.0)", "LOG_STD_BOUNDS = (-5.0, 2.0)", "other limits of the deviation"),
    Mutant("kernels/bank.py", ".scatter_add_(1, places, grad) @ bank", ".scatter_(1, places, grad) @ bank", "a row that was drawn twice counts once"),
    Mutant("kernels/bank.py", "(anchors @ bank.T).gather(1, places)", "(anchors @ bank.T).gather(1, places.flip(1))", "rows in another order"),
    Mutant("negatives/bank.py", "self.momentum * self.storage[ids] + (1 - self.momentum) * F.normalize(z, dim=1)", "(1 - self.momentum) * self.storage[ids] + self.momentum * F.normalize(z, dim=1)", "the bank's momentum the wrong way round"),
    Mutant("negatives/bank.py", "(1 - self.momentum) * F.normalize(z, dim=1)", "(1 - self.momentum) * z", "long embeddings outweigh the bank"),
    Mutant("negatives/bank.py", "self.storage[ids] = F.normalize(mixed, dim=1)", "self.storage[ids] = mixed", "rows of the bank grow shorter"),
    Mutant("negatives/bank.py", 'self._waiting = (state["ids"], state["z"]) if state else None', "self._waiting = None", "a checkpoint forgets what waits"),
    Mutant("negatives/bank.py", "self._waiting[1].to(self.storage)", "self._waiting[1]", "what waits stays on another device"),
    Mutant("losses/bank.py", "Absent(same=((ids, places),))", "Absent()", "the own row is met whatever is asked"),
    Mutant("losses/bank.py", "tau.repeat_interleave(len(z))", "tau.repeat(len(z))", "tau_plus of another pair"),
    Mutant("images/cmc.py", "self.loss(z, [colour, luminance]", "self.loss(z, [luminance, colour]", "each view against its own bank"),
    Mutant("images/cmc.py", "        if self.training:", "        if True:", "an evaluation changes the banks"),
    Mutant("images/cmc.py", "return len(z) * loss", "return loss", "losses of the views not added"),
    Mutant("images/transforms.py", "7.787 * xyz + 16 / 116", "7.787 * xyz", "dark colours without their offset"),
    Mutant("images/augment.py", 'images = batch.images if settings.space == "rgb" else transforms.to_space(batch.images, settings.space)', "images = batch.images", "views in red, green and blue"),
    Mutant("evaluation/official.py", "learning_rate * DROP ** sum", "learning_rate * 1.0 ** sum", "a probe's rate never drops"),
    Mutant("evaluation/official.py", "key=lambda found: found[0]", "key=lambda found: found[1]", "the best epoch by its top-5"),
    Mutant("membership/training.py", "self.hold(unpack(torch.load(io.BytesIO(saved), weights_only=True)) if saved else None)", "self.hold(None)", "a resumed run forgets", ("tests/membership/test_training.py",)),
    Mutant("membership/training.py", "known.partitions.to(device, torch.int64)", "known.partitions.to(device)", "codes widened in every step", ("tests/membership/test_training.py",)),
    Mutant("membership/training.py", "self.knowledge, self._tables = knowledge, {}", "self.knowledge = knowledge", "old codes beside new knowledge", ("tests/membership/test_training.py",)),
    Mutant("membership/training.py", '("quality", "strength", "reason")', '("quality", "reason")', "a resumed run forgets its strength", ("tests/membership/test_training.py",)),
    Mutant("membership/knowledge.py", '"membership": self.membership[rows], **self.trust', '"membership": self.membership[rows]', "the loss is not told the strength", ("tests/membership/test_training.py",)),
    Mutant("membership/strength.py", "min(best, 1 / max(_largest(knowledge), _TINY))", "best", "labelled pairs of a small q cut off all others"),
    Mutant("membership/training.py", 'state.get("strength", 1.0) == 1', "False", "a strength of 1 of earlier runs overrides their loss", ("tests/membership/test_training.py",)),
    Mutant("membership/knowledge.py", '{} if self.strength is None else {"strength"', '{} if self.strength in (None, 1) else {"strength"', "a chosen strength of 1 left to the loss", ("tests/membership/test_training.py",)),
    Mutant("membership/strength.py", "if count < FEW_LABELS:", "if count > FEW_LABELS:", "a handful of labels believed in silence"),
    Mutant("membership/strength.py", "pairs.data[pairs.row != pairs.col]", "pairs.data", "largest q of a graph with itself"),
    Mutant("membership/strength.py", "best_strength(z, labels, part, temperature)", "best_strength(z, labels, part)", "strength at another temperature"),
    Mutant("images/knowledge.py", '"cross-fitted" if membership.is_auto else "given"', '"given"', "a classifier judged by labels that it saw", ("tests/images/test_membership.py",)),
    Mutant("images/knowledge.py", "replace(self._with_strength(fitted), membership=given)", "self._with_strength(fitted)", "known labels are no facts", ("tests/images/test_membership.py",)),
    Mutant("images/knowledge.py", "once=not (membership.is_learnt or membership.is_auto)", "once=not membership.is_learnt", "a strength chosen once", ("tests/images/test_membership.py",)),
    Mutant("images/knowledge.py", "labels is None or not self.settings.membership.known or", "labels is None or", "labels read that may not be", ("tests/images/test_membership.py",)),
    Mutant("images/knowledge.py", 'strength=known.trust.get("strength", membership.given_strength)', "strength=membership.given_strength", "force share at another strength", ("tests/images/test_membership.py",)),
    Mutant("images/cmc.py", "ids=ids, places=places, **told)", 'ids=ids, places=places, **told | {"strength": None})', "banks without the strength", ("tests/images/test_membership.py",)),
    Mutant("text/quickthoughts.py", 'known.trust.get("strength", self.strength)', "self.strength", "towers without the strength", ("tests/text/test_membership.py",)),
    Mutant("membership/training.py", "self._rows(stored)", "self._rows(ids)", "queries in place of keys", ("tests/membership/test_training.py",)),
    Mutant("images/knowledge.py", "epoch < membership.begin", "epoch < 0", "no warm-up", ("tests/images/test_membership.py",)),
    Mutant("images/knowledge.py", "(epoch - membership.begin) % membership.refresh == 0", "True", "refreshed too often", ("tests/images/test_membership.py",)),
    Mutant("images/networks.py", '            "tau_plus": 0.0,', '            "tau_plus": objective.correction,', "debiased before the membership begins", ("tests/images/test_membership.py",)),
    Mutant("text/quickthoughts.py", "q.fill_diagonal_(0.0)", "q", "a sentence weighs itself away", ("tests/text/test_membership.py",)),
    Mutant("text/run.py", '    method.known = None\n', "", "knowledge saved as a tower", ("tests/text/test_membership.py",)),
    Mutant("report/groups.py", ' and not key.startswith("membership.")', "", "memberships are compared with nothing", ("tests/report/test_groups.py",)),
    Mutant("training/gradient.py", 'make_generator(seed, "batch", step)', 'make_generator(seed, "batch")', "every batch drawn the same"),
    Mutant("control/agent.py", "loss = actor_loss(self.critics(features, action)", "loss = actor_loss(self.target_critics(features, action)", "the policy asks the target critics"),
    Mutant("../../studies/control_steps.py", '(1 - group["betas"][0] ** count)', 'group["betas"][0]', "Adam's mean as if it began long ago", ("tests/studies/test_control_steps.py",)),
    fault("files.py", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB", "a lock that anybody shares", "writers.py"),
    fault("files.py", "if not _is_deep(content, _JSON_LEVELS):", "if True:", "nested as deeply as anybody likes", "damaged_files.py"),
    fault("runs.py", "if key not in ignored and", 'if key != "seed" and key not in ignored and', "a checkpoint of another seed", "checkpoints.py"),
    fault("runs.py", "return (line for line in self._lines() if line is not None)", "return iter(list(self._lines()))", "a damaged line is taken for one", "damaged_files.py::test_a_damaged_line_of_a_log_costs_that_line"),
    fault("training/loop.py", '(state["samples"], state["digest"]) != (self.samples, self.digest)', 'state["samples"] != self.samples', "other data, if they are as many", "data.py"),
    fault("training/loop.py", "check_finite(learner.module.state_dict(), ", "check_finite({}, ", "a sound checkpoint pushed out by one of NaN", "divergence.py"),
    fault("training/settings.py", "        return kind is bool", "        return True", "True is a seed", "damaged_files.py::test_seeds_are_whole_numbers"),
    fault("images/images.py", "digest.update(file.read(_DIGEST_BYTES))", "digest.update(file.read(0))", "pictures replaced under their names", "data.py"),
    fault("text/corpus.py", 'or description["digests"] != digests', "", "a changed token cache is trained on", "text_files.py"),
    fault("images/image_files.py", "Image.open(source, formats=_FORMATS)", "Image.open(source)", "Ghostscript is started", "image_files.py"),
    fault("training/weights.py", "if file_digest(folder / name) != expected:", "if not (folder / name).exists():", "exchanged words of a vocabulary", "text_files.py"),
    fault("training/checkpoint.py", "        check_is_file(path)\n        state", "        state", "a folder is read as a checkpoint", "checkpoints.py::test_what_is_no_checkpoint_is_passed_over_with_a_line[folder]"),
    Mutant("report/page.py", "        autoescape=True,", "        autoescape=False,", "names of a run are markup", ("tests/report/test_page.py",)),
    Mutant("report/groups.py", "return cost.mean > 0 and not cost.mean <= cost.half_width", "return cost.mean > 0", "a share of what may be chance", ("tests/report/test_groups.py",)),
    Mutant("runs.py", 'settings.pop("domain", None)', "pass", "runs that name their domain are no seeds of those that do not", ("tests/test_domain.py",)),
    fault("report/records.py", "settings = _unicode(run.settings)", "settings = run.settings", "a page that cannot be written", "damaged_files.py::test_wrong_types_anywhere_leave_a_page"),
    fault("cli/terminal.py", "codecs.register_error(_REPLACE, _replace_letters)", 'codecs.register_error(_REPLACE, codecs.lookup_error("strict"))', "an ASCII terminal ends the work", "terminals.py"),
    *(
        Mutant(path, old, new, what, ("tests/losses/test_knowledge.py", "tests/negatives"))
        for path, old, new, what in (
            ("kernels/weights.py", "mul_(-factor).add_(1.0).clamp_min_(0.0)", "mul_(-factor).add_(1.0)", "weights below 0"),
            ("kernels/weights.py", "masked_fill(columns < 0, -2)", "masked_fill(columns < 0, -1)", "unknown codes equal each other"),
            ("kernels/weights.py", "div_(len(of_rows))", "div_(1)", "number of equal codes, not their share"),
            ("kernels/weights.py", "not isinstance(self.form, GivenWeights) and not isinstance(self.strength, Tensor)", "True", "weights of one side for both"),
            ("kernels/tiled.py", "remove_(self.weights.tile(i, j), i, j, 0.0)", "remove_(self.weights.tile(i, j), i, j, 1.0)", "the own sample weighted"),
            ("kernels/tiled.py", "term.add_(weights.log())", "term.add_(weights - 1)", "weights at low temperature"),
            ("kernels/tiled.py", "totals_of_columns[j] += weights.sum(0)", "totals_of_columns[j] += 0", "half of the weights' sum"),
            ("kernels/log_mean.py", "torch.where(is_empty, 0.0, n.repeat(2) if both else n)", "(n.repeat(2) if both else n)", "anchors without any weight repelled"),
            ("kernels/log_mean.py", "of_pairs.log().masked_fill((total == 0).unsqueeze(dim), 0.0)", "of_pairs.log()", "gradient of a sum without weights"),
            ("kernels/attraction.py", "torch.threshold_(q, self.above, 0.0)", "torch.threshold_(q, 0.0, 0.0)", "attraction to everybody"),
            ("kernels/attraction.py", "d_columns[j].addmm_(of_tile.T, grad[i])", "d_columns[j].addmm_(of_tile.T, 0 * grad[i])", "attraction of one side alone"),
            ("losses/pairs.py", "/ (1 + attraction * totals)", "/ (1 + totals)", "mean of the numerator"),
            ("kernels/weights.py", ".sub_(self.negatives.tile(rows, columns)).clamp_min_(0.0)", ".mul_(0.0)", "the own positive pushed away"),
            ("losses/knowledge.py", "values = values.detach().clone()", "values = values.detach()", "knowledge that changes before the backward"),
            ("losses/pairs.py", "total.square() / torch.where(squares > 0, squares, 1.0)", "total / torch.where(squares > 0, squares, 1.0)", "effective number"),
            ("losses/pairs.py", "covariance = (e * q).sum(1) / count - mean_q", "covariance = (e * q).sum(1) / count", "covariance without the product of means"),
            ("losses/knowledge.py", "fits = (wide >= 0).all(-1) & (wide.sum(-1) <= limit)", "fits = (wide >= 0).all(-1)", "rows that sum to more than 1"),
            ("losses/knowledge.py", "self.weights.repeat_interleave(repeats)", "self.weights.repeat(repeats)", "strength of the wrong anchor"),
            ("losses/nt_xent.py", "or told.known is not None", "or False", "knowledge and tau_plus at once"),
            ("losses/pairs.py", "(positive + attraction * sums)", "attraction * sums", "attraction without the positive"),
            ("losses/bank.py", "q = q + ((codes[places] == own) & (own >= 0))", "q = q + (codes[places] == own)", "unknown rows of a bank share a class"),
            ("losses/bank.py", "lacking = (attraction * pulling - weights).clamp(min=0.0)", "lacking = 0 * pulling", "mates of a bank not in the denominator"),
            ("objectives/losses.py", "losses + statistics.attraction if isinstance(statistics.attraction, Tensor) else losses", "losses", "attraction forgotten"),
            ("objectives/statistics.py", "total = torch.where(present, weights, 0.0).sum(-1)", "total = weights.sum(-1)", "weights of absent samples"),
            ("negatives/knowledge.py", "self.partitions[places] = -1 if partitions is None else", "self.partitions[places] = 0 if partitions is None else", "unknown partitions are the first"),
        )
    ),
    Mutant("membership/labels.py", ".float() * known.unsqueeze(1)", ".float()", "unknown samples are of class 0"),
    Mutant("membership/labels.py", "-1 if _is_missing(value) else ", "", "what is missing is a group"),
    Mutant("membership/quality.py", "rows.sum(0).square().sum() - rows.square().sum()", "rows.sum(0).square().sum()", "samples share a class with themselves"),
    Mutant("membership/quality.py", "q = known.same_class(places, places).fill_diagonal_(0.0)", "q = known.same_class(places, places)", "samples vote for themselves"),
    Mutant("membership/classifier.py", "trained = fold_of != used.unsqueeze(1)", "trained = fold_of != -2 * used.unsqueeze(1) - 2", "held-out samples are seen"),
    Mutant("membership/classifier.py", ", label_smoothing=1 / (1 + len(labels))", "", "a few right labels prove certainty"),
    Mutant("membership/classifier.py", "features.x[own] + features.mean", "features.x[own]", "held-out features without their mean"),
    Mutant("membership/classifier.py", "labels.bincount()[labels] > 1", "labels.bincount()[labels] > 0", "a class without a sample in a fold"),
    Mutant("membership/kmeans.py", "means = torch.where(sizes > 0, sums / sizes.clamp_min(1), means)", "means = sums / sizes.clamp_min(1)", "empty clusters go to zero"),
    Mutant("membership/kmeans.py", "means.square().sum(1) / 2", "means.square().sum(1)", "nearest by another distance"),
    Mutant("membership/graph.py", "above.addr_(forgotten", "above.addr(forgotten", "what every walk finds counts"),
    Mutant("membership/graph.py", "references.unsqueeze(1) * references[partners]", "references.unsqueeze(1) * references.unsqueeze(1)", "q of one of the two"),
    Mutant("membership/graph.py", "        cosines[:, ~there] = -torch.inf\n", "", "zero rows are neighbours"),
    Mutant("membership/graph.py", "np.flatnonzero(again | (first == second))", "np.flatnonzero(again)", "random partners of themselves"),
    Mutant("membership/guide.py", "        unit = torch.zeros_like(unit)\n", "", "a collapsed encoder knows"),
    Mutant("membership/guide.py", 'make_generator(seed, "clustering", number)', 'make_generator(0, "clustering", number)', "one draw for all seeds"),
    Mutant("membership/patches.py", "maps - maps.mean(1, keepdim=True)", "maps", "patches keep their brightness"),
    Mutant("membership/patches.py", "distances.mean(1, keepdim=True) - distances", "distances - distances.mean(1, keepdim=True)", "the farther centres"),
    *(
        Mutant(path, old, new, what, ("tests/losses/test_columns.py", "tests/losses/test_decoupled.py", "tests/losses/test_supcon.py", "tests/kernels/test_gather.py"))
        for path, old, new, what in (
            ("kernels/absent.py", "tile = fill(tile, self.pairs[rows, columns], value)", "pass", "excluded pairs met"),
            ("kernels/absent.py", "return self.pairs is None", "return True", "a mask of one side for both"),
            ("losses/directions.py", "columns = torch.cat([columns, -log_q.unsqueeze(-1)], -1)", "columns = torch.cat([columns, log_q.unsqueeze(-1)], -1)", "popular samples weigh more"),
            ("losses/directions.py", "parts[0] - log_q.detach().max()", "parts[0] - log_q.detach().min()", "floor of the rarest sample"),
            ("losses/directions.py", "positive if each.own_log_q is None else positive - each.own_log_q", "positive", "the key's own popularity"),
            ("losses/directions.py", "torch.cat([keys, gather_rows(z.hard_negatives, share).flatten(0, 1)])", "torch.cat([keys, z.hard_negatives.flatten(0, 1)])", "hard negatives of this process alone"),
            ("losses/options.py", "replace(self, bound=math.inf)", "self", "exponentials of rare samples unshifted"),
            ("losses/inputs.py", "torch.where(left == 0, 0.0, number_like(count, left))", "count", "anchors without samples repelled by nobody"),
            ("losses/info_nce.py", "return int((values @ weights).view(torch.int64))", "return 0", "negatives of each process unlike"),
            ("objectives/losses.py", "torch.where(n == 0, 0.0, losses) if isinstance(n, Tensor) else losses", "losses", "an anchor without samples at minus infinity"),
            ("losses/debiased.py", "objective = decoupled if self.decoupled else debiased", "objective = debiased", "the positive stays in the denominator"),
            ("losses/supcon.py", "known = own.joined(known)", "known = own.joined(mates)", "known negatives do not repel"),
            ("losses/supcon.py", "torch.as_tensor(statistics.num_unlabeled) > 0, of_inputs, 0.0", "torch.as_tensor(statistics.num_unlabeled) >= 0, of_inputs, 0.0", "a floor where all labels are known"),
            ("losses/supcon.py", "torch.where(has_positives, unlabeled.number, 0.0)", "unlabeled.number", "anchors without positives are repelled"),
            ("kernels/gather.py", "dist.all_reduce(total, group=ctx.group)", "dist.all_reduce(total)", "gradients of another group"),
            ("kernels/gather.py", "dist.all_reduce(total, group=share.group)", "dist.all_reduce(total)", "automatic tau_plus of another group"),
            ("losses/debiased.py", "losses = record.objective(record.statistics, 0.0)", "losses = debiased(record.statistics, 0.0)", "biased loss of another objective"),
        )
    ),
    Mutant("losses/checks.py", "return self.is_round or self._arrived() == 0", "return self.is_round", "a second bad batch passes", ("tests/losses/test_checks.py",)),
    Mutant("losses/checks.py", "return self.is_round or self._arrived() == 0", "return True", "every call waits for the device", ("tests/losses/test_checks.py",)),
    Mutant("numerics.py", "return False  # To know it is to wait for the device.", "pass", "lengths are waited for", ("tests/losses/test_checks.py",)),
    Mutant("numerics.py", "torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)", "torch.is_autocast_enabled(device.type)", "autocast in a compiled backward", ("tests/losses/test_compile.py",)),
    Mutant("kernels/log_mean.py", "count = number_like(count, rows).expand(rows.shape[0])", "pass", "compiled for one batch size", ("tests/losses/test_compile.py",)),
    Mutant("kernels/log_mean.py", "else terms[0] + terms[1]", "else terms[0]", "half of a forward derivative", ("tests/losses/test_func.py",)),
]  # fmt: skip


def first_failure(mutant: Mutant | None, suite: Sequence[str]) -> str | None:
    """The test that fails first on a copy of the package with this edit, if one does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "studies", "tests"):
            shutil.copytree(ROOT / name, copy / name)
        for name in ("benchmarks", "docs", "results", "pyproject.toml", "README.md"):
            (copy / name).symlink_to(ROOT / name)
        if mutant is not None:
            file = copy / PACKAGE / mutant.path
            file.write_text(file.read_text().replace(mutant.old, mutant.new))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *suite]
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "DEBIASED_MUTANT": str(copy)}
        try:
            run = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            # A mutant that never ends is noticed by whoever waits; the unchanged package would be too slow.
            return "timeout"
    if run.returncode not in (0, 1):
        raise RuntimeError(f"the suite did not run:\n{run.stdout}\n{run.stderr}")
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)
    if (run.returncode == 1) != bool(found):
        raise RuntimeError(f"a failure without a test:\n{run.stdout}\n{run.stderr}")
    return found[1] if found else None


def catch(mutant: Mutant, known: str | None) -> str | None:
    """The test that notices: the one that did before, if it is still there, or the first of the suite."""
    if known is not None and (ROOT / known.partition("::")[0]).is_file():
        try:
            if caught := first_failure(mutant, [known]):
                return caught
        except RuntimeError:
            pass  # The test has another name now.
    return first_failure(mutant, mutant.suite or SUITES.get(Path(mutant.path).parts[0], CORE))


def _commit() -> str:
    """Of the code that is tested; what is not committed is told."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> int:
    chosen = [int(number) for number in sys.argv[1:]] or list(range(len(MUTANTS)))
    print(f"commit {_commit()}", flush=True)
    everything = [*CORE, *(file for suite in SUITES.values() for file in suite)]
    if len(sys.argv) == 1 and first_failure(None, everything):
        print("the unchanged package fails its own suite")
        return 2
    known = json.loads(CAUGHT.read_text()) if CAUGHT.exists() else {}
    caught = 0
    with ThreadPoolExecutor(2) as pool:
        tests = pool.map(lambda number: catch(MUTANTS[number], known.get(MUTANTS[number].name)), chosen)
        for number, test in zip(chosen, tests, strict=True):
            mutant = MUTANTS[number]
            print(f"{number:2} {'caught  ' if test else 'SURVIVED'} {mutant.name}", flush=True)
            caught += bool(test)
            known |= {mutant.name: test} if test else {}
            CAUGHT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(f"{caught} of {len(chosen)} mutants caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
