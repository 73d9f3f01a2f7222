"""Every figure of the documentation."""

from figures import estimator, gains, paper, speed
from figures.figure import Figure

FIGURES = (
    Figure("headline", "Points of nearest-neighbour accuracy gained on biased training. With augmented views as "
           "positives the paper's correction gains nothing; what is known about classes does.", gains.headline,
           width=10.4),
    Figure("cost", "Points of accuracy that all labels gain on biased training: the cost of bias.", gains.cost),
    Figure("floor", "Share of the anchors on the floor at tau_plus = 1/K, by temperature.", estimator.floor),
    Figure("tau-cap", "The largest tau_plus that keeps anchors off the floor falls while training goes on.",
           estimator.tau_cap),
    Figure("tau-eff", "With views as positives the right tau_plus is far below the true share of false negatives.",
           estimator.tau_eff),
    Figure("membership", "Points gained by what a classifier on some of the labels says about classes.",
           gains.membership, width=10.4),
    Figure("force-share", "Force share of a source before training, beside the gap that training with it closed.",
           gains.force_share, height=4.2),
    Figure("more-positives", "Points gained by more views, in the correction and without it, and by longer "
           "biased training.", paper.more_positives, width=10.4),
    Figure("beside-the-paper", "Gains of the correction: the paper's beside ours at a small scale.",
           gains.beside_the_paper),
    Figure("auto", "Distance of each loss from the unbiased one, by temperature.", estimator.auto, width=9),
    Figure("priors", "Estimates of tau_plus for ten even classes; orange ones came with a warning.",
           estimator.priors, width=9),
    Figure("sentence-floors", "Pairs on the floor and biased loss while sentence towers learn a text by heart.",
           estimator.sentence_floors, width=9),
    Figure("agents", "Returns of agents that learn from pixels, by objective.", gains.agents, width=9),
    Figure("agents-floor", "Nearly all queries of the debiased term of an agent are soon on the floor.",
           estimator.agents_floor, width=9),
    Figure("bank-order", "With each image once in an epoch the loss of a memory bank falls within each epoch.",
           estimator.bank_order),
    Figure("speed", "Time and memory of a loss beside other libraries, by the number of pairs.", speed.speed,
           width=9),
)  # fmt: skip
