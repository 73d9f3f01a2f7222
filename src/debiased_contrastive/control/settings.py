"""Settings of an agent that learns from pixels, as frozen data."""

from dataclasses import dataclass, field, replace
from typing import Literal

from debiased_contrastive.control.agent import AgentSettings
from debiased_contrastive.control.task import EPISODE
from debiased_contrastive.losses.floors import RawFloor
from debiased_contrastive.objectives.checks import check_tau_plus
from debiased_contrastive.training.settings import check_at_least, check_words

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
    """Side of what is cut out of it: at random to learn, in the middle to act."""
    stack: int = 3
    """The last so many frames are seen together."""
    plain: bool = False
    """Draw without shadows and reflections: in a quarter of the time, where there is no card."""

    grey: bool = False
    """Brightness alone."""
    wide: float = 1.0
    """Times as much of the world is seen to each side; what leaves the picture is out of sight."""
    smooth: int = 1
    """Frames are drawn so many times as large, and averaged."""
    pad: int = 0
    """Pixels of the edge that are repeated around a frame, so that a crop need not leave anything out."""

    @property
    def channels(self) -> int:
        """Of a frame."""
        return 1 if self.grey else 3

    @property
    def side(self) -> int:
        """Of a frame with what is around it, in pixels."""
        return self.size + 2 * self.pad

    def __post_init__(self) -> None:
        check_at_least(1, size=self.size, crop=self.crop, stack=self.stack, smooth=self.smooth)
        check_at_least(0, pad=self.pad)
        if not 0.1 <= self.wide <= 10:
            raise ValueError(f"wide must lie between 0.1 and 10; got {self.wide}: 1 is the camera of the task")
        if self.crop > self.side:
            raise ValueError(f"crop must be at most size + 2 pad, {self.side}; got {self.crop}")


@dataclass(frozen=True)
class ControlObjective:
    """Which loss between two crops of what was seen."""

    kind: Literal["none", "biased", "debiased"] = "debiased"
    """none: soft actor-critic alone, on the same crops."""
    tau_plus: float = 0.05
    """Probability that another frame of the batch is as good as another crop of the same; for debiased alone."""
    num_positives: int = 1
    """M, for debiased alone: further crops estimate the positives' mean."""
    floor: RawFloor = "zero"
    """Below which the estimate may not fall, for debiased alone: small is e^-10; relative a twentieth of the
    unlabeled mean; biased takes the biased loss there, cap_tau a smaller tau_plus."""

    def __post_init__(self) -> None:
        check_words(self)
        check_tau_plus(self.tau_plus)
        check_at_least(1, num_positives=self.num_positives)

    @property
    def correction(self) -> float:
        """The tau_plus that the loss is given."""
        return self.tau_plus if self.kind == "debiased" else 0.0

    @property
    def views(self) -> int:
        """Crops of what was seen: the agent's, and those of the keys."""
        return {"none": 1, "biased": 2, "debiased": 1 + self.num_positives}[self.kind]


@dataclass(frozen=True)
class ControlTraining:
    """How long, how fast, on what."""

    frames: int = 800_000
    """Of the simulation; an agent's step is as many of them as actions are repeated."""
    repeat: int | None = None
    """How often an action is repeated; as CURL does in the task if not given."""
    batch: int = 128
    learning_rate: float | None = None
    """Of actor, critics, encoder and contrast; CURL's for the task if not given."""
    random_steps: int = 1000
    """At the beginning, before anything is learnt."""
    update_every: int = 1
    """Steps between two updates: without a card, frames are cheaper than networks."""
    capacity: int = 100_000
    """Steps that are remembered."""
    accelerator: str = "auto"
    """Of Lightning Fabric: auto, cpu, gpu, ..."""
    log_every: int = 100
    """Steps between two lines of metrics."""
    evaluate_every: int = 10_000
    """Steps between two evaluations."""
    episodes: int = 10
    """Of an evaluation."""
    checkpoint_every: int = 0
    """Steps between two checkpoints; 0 is at every evaluation."""

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
    """Everything that a run depends on."""

    preset: str = ""
    """The name of the preset that these settings started from."""
    seed: int = 0
    task: str = "cartpole-swingup"
    """DOMAIN-TASK of the DeepMind control suite."""
    camera: Camera = field(default_factory=Camera)
    agent: AgentSettings = field(default_factory=AgentSettings)
    objective: ControlObjective = field(default_factory=ControlObjective)
    training: ControlTraining = field(default_factory=ControlTraining)


def settled(settings: ControlSettings) -> ControlSettings:
    """With CURL's numbers for the task where none are given."""
    training = settings.training
    repeat = REPEATS.get(settings.task, 4) if training.repeat is None else training.repeat
    rate = RATES.get(settings.task, 1e-3) if training.learning_rate is None else training.learning_rate
    if training.random_steps >= training.frames // repeat:
        raise ValueError(
            f"random_steps must be fewer than the steps, {training.frames // repeat} of {repeat} frames each; got "
            f"{training.random_steps}: nothing would be learnt, give more frames"
        )
    return replace(settings, training=replace(training, repeat=repeat, learning_rate=rate))
