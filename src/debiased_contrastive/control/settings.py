"""The settings of an agent that learns from pixels, and their presets."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from debiased_contrastive.domain import Preset, name_presets
from debiased_contrastive.objectives.checks import RawFloorName
from debiased_contrastive.training.settings import Objective, Precision, check_at_least

EPISODE = 1000
"""Frames of the simulation in an episode of the suite."""
REPEATS = {"finger-spin": 2, "walker-walk": 2, "cartpole-swingup": 8}
"""How often CURL repeats an action; 4 times in other tasks."""
RATES = {"cheetah-run": 2e-4}
"""CURL's learning rate; 1e-3 in other tasks."""


@dataclass(frozen=True)
class Camera:
    """What the agent sees."""

    size: int = 100
    """Side of a frame in pixels."""
    crop: int = 84
    """Side of the crop of a frame that the agent sees: a random one to learn, the middle to act."""
    stack: int = 3
    """Number of frames, the newest and those before it, that the agent sees together."""
    plain: bool = False
    """Draw without shadows and reflections. Without a graphics card, this takes a quarter of the time."""
    grey: bool = False
    """Show the brightness alone, without colours."""
    wide: float = 1.0
    """Field of view, as a multiple of the task's."""
    smooth: int = 1
    """Draw frames this many times as large and average them down, which smooths edges."""
    pad: int = 0
    """Number of pixels by which the edge of a frame is repeated outwards before it is cropped."""

    @property
    def channels(self) -> int:
        return 1 if self.grey else 3

    @property
    def side(self) -> int:
        """Side of a frame with its padding, in pixels."""
        return self.size + 2 * self.pad

    def __post_init__(self) -> None:
        check_at_least(1, size=self.size, crop=self.crop, stack=self.stack, smooth=self.smooth)
        check_at_least(0, pad=self.pad)
        if not 0.1 <= self.wide <= 10:
            raise ValueError(f"wide must lie between 0.1 and 10; got {self.wide}: 1 is the camera of the task")
        if self.crop > self.side:
            raise ValueError(f"crop must be at most size + 2 pad, {self.side}; got {self.crop}")


@dataclass(frozen=True)
class AgentSettings:
    """Networks of the agent, and how they learn."""

    filters: int = 32
    """Channels of each convolution."""
    layers: int = 4
    """Number of convolutions."""
    strided: int = 1
    """Number of convolutions, from the first on, that have a stride of 2."""
    motion: bool = False
    """Show the agent its newest frame and the differences between frames, instead of all frames."""
    feature_dim: int = 50
    """Number of features of an observation."""
    hidden_dim: int = 1024
    """Number of hidden units of policy and critics."""
    gamma: float = 0.99
    """Factor on a reward for each step that it lies in the future."""
    alpha: float = 0.1
    """Weight of the policy's entropy at the start; it adapts in training."""
    alpha_learning_rate: float = 1e-4
    """Learning rate of the weight of entropy."""
    critic_rate: float = 0.01
    """Share of the difference by which the target critics move towards the critics in an update."""
    encoder_rate: float = 0.05
    """Share of the difference by which the target encoder moves towards the encoder in an update."""
    every: int = 2
    """Number of updates of the critics for each update of the policy and the target networks."""
    encoder_steps: int = 1
    """Optimiser steps on the encoder in one update of the contrast; CURL's released code takes 2."""

    def __post_init__(self) -> None:
        sizes = (self.filters, self.layers, self.feature_dim, self.hidden_dim, self.every)
        if min(sizes) < 1 or self.encoder_steps not in (1, 2):
            raise ValueError(
                "filters, layers, feature_dim, hidden_dim and every must be at least 1, encoder_steps 1 or 2; got "
                f"{', '.join(map(str, sizes))} and {self.encoder_steps}"
            )
        if not 0 <= self.strided <= self.layers:
            raise ValueError(f"strided must lie between 0 and layers, {self.layers}; got {self.strided}")
        shares = (self.gamma, self.critic_rate, self.encoder_rate)
        if not all(0 <= share <= 1 for share in shares) or not self.alpha > 0 or not self.alpha_learning_rate > 0:
            raise ValueError(
                "gamma, critic_rate and encoder_rate must lie in [0, 1], alpha and its rate be positive; got "
                f"{', '.join(map(str, shares))}, {self.alpha} and {self.alpha_learning_rate}"
            )


@dataclass(frozen=True)
class ControlObjective(Objective):
    """Which loss between two crops of what was seen."""

    kind: Literal["none", "biased", "debiased"] = "debiased"
    """No contrast at all (soft actor-critic on the same crops), the usual loss, or the corrected one."""
    tau_plus: float = 0.05
    """Probability that another frame of the batch is as good as another crop of the same. Only the debiased loss
    uses it."""
    num_positives: int = 1
    """Crops of a frame that estimate its positives; only the debiased loss uses more than one."""
    floor: RawFloorName = "zero"
    """The smallest value of the debiased loss's estimate: zero; small is e^-10; relative a twentieth of the
    unlabeled mean. Where the estimate is negative, biased takes the biased loss and cap_tau a smaller tau_plus."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, num_positives=self.num_positives)

    @property
    def views(self) -> int:
        """Crops of what was seen: the agent's, and those of the keys."""
        return {"none": 1, "biased": 2, "debiased": 1 + self.num_positives}[self.kind]


@dataclass(frozen=True)
class ControlTraining:
    """How long and how fast an agent learns, and on which device."""

    precision: ClassVar[Precision] = "32-true"

    frames: int = 800_000
    """Frames of the simulation; a step of the agent takes as many of them as its action is repeated."""
    repeat: int | None = None
    """How often an action is repeated; if not given, as often as CURL does in the task."""
    batch: int = 128
    """Number of transitions in an update."""
    learning_rate: float | None = None
    """Learning rate of actor, critics, encoder and contrast; if not given, CURL's for the task."""
    random_steps: int = 1000
    """Number of steps with random actions at the beginning, before anything is learnt."""
    update_every: int = 1
    """Number of steps between two updates: without a graphics card, frames are cheaper than networks."""
    capacity: int = 100_000
    """Number of steps that the replay remembers."""
    accelerator: str = "auto"
    """The device to train on, as Lightning Fabric calls it: auto, cpu, gpu, ..."""
    log_every: int = 100
    """Number of steps between two lines of metrics."""
    evaluate_every: int = 10_000
    """Number of steps between two evaluations."""
    episodes: int = 10
    """Number of episodes in an evaluation."""
    checkpoint_every: int = 0
    """Number of steps between two checkpoints; 0 writes one at every evaluation."""

    def __post_init__(self) -> None:
        check_at_least(
            1,
            frames=self.frames,
            update_every=self.update_every,
            log_every=self.log_every,
            evaluate_every=self.evaluate_every,
            episodes=self.episodes,
        )
        check_at_least(2, batch=self.batch)
        check_at_least(0, random_steps=self.random_steps, checkpoint_every=self.checkpoint_every)
        # An episode, so that one that was cut off can be played again.
        check_at_least(EPISODE, capacity=self.capacity)
        if self.repeat is not None and not 1 <= self.repeat <= min(EPISODE, self.frames):
            raise ValueError(
                f"repeat must lie between 1 and an episode's frames, {EPISODE}, and be at most frames, "
                f"{self.frames}; got {self.repeat}"
            )
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive; got {self.learning_rate}")


@dataclass(frozen=True)
class ControlSettings:
    """Everything that a run of an agent depends on."""

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    """Weights, episodes and crops are drawn from it."""
    task: str = "cartpole-swingup"
    """A task of the DeepMind control suite, as DOMAIN-TASK."""
    camera: Camera = field(default_factory=Camera)
    agent: AgentSettings = field(default_factory=AgentSettings)
    objective: ControlObjective = field(default_factory=ControlObjective)
    training: ControlTraining = field(default_factory=ControlTraining)


def with_task_defaults(settings: ControlSettings) -> ControlSettings:
    """Fill in CURL's numbers for the task where none are given."""
    training = settings.training
    repeat = REPEATS.get(settings.task, 4) if training.repeat is None else training.repeat
    rate = RATES.get(settings.task, 1e-3) if training.learning_rate is None else training.learning_rate
    if training.random_steps >= training.frames // repeat:
        raise ValueError(
            f"random_steps must be fewer than the steps, {training.frames // repeat} of {repeat} frames each; got "
            f"{training.random_steps}: nothing would be learnt, give more frames"
        )
    return replace(settings, training=replace(training, repeat=repeat, learning_rate=rate))


CONTROL_PRESETS = name_presets(
    {
        "curl": Preset(
            "a task of the control suite from small frames, for a single core; give --task",
            ControlSettings(
                camera=Camera(size=48, crop=48, pad=2, plain=True, grey=True, smooth=2, wide=1.3),
                agent=AgentSettings(filters=16, layers=3, strided=2, motion=True, hidden_dim=256),
                training=ControlTraining(frames=160_000, repeat=8, batch=64, evaluate_every=2500, log_every=50),
            ),
        ),
        "curl-dcl-paper": Preset(
            "the paper's numbers as they were likely made: actions 8 times, 100,000 steps of the agent",
            ControlSettings(training=ControlTraining(frames=800_000, repeat=8, learning_rate=1e-3)),
        ),
        "curl-dmc100k": Preset(
            "CURL's own protocol: repeats and rate by task, 100,000 frames of the simulation",
            ControlSettings(training=ControlTraining(frames=100_000, batch=512, evaluate_every=2500)),
        ),
    }
)
