"""Named settings for control: the two readings of the published numbers, and one that a single core can do."""

from dataclasses import dataclass, replace

from debiased_contrastive.control.agent import AgentSettings
from debiased_contrastive.control.settings import Camera, ControlSettings, ControlTraining


@dataclass(frozen=True)
class ControlPreset:
    """Settings with a line that says what they are."""

    what: str
    settings: ControlSettings


_PRESETS = {
    "curl": ControlPreset(
        "a task of the control suite from small frames, for a single core; give --task",
        ControlSettings(
            camera=Camera(size=48, crop=48, pad=2, plain=True, grey=True, smooth=2, wide=1.3),
            agent=AgentSettings(filters=16, layers=3, strided=2, motion=True, hidden_dim=256),
            training=ControlTraining(frames=160_000, repeat=8, batch=64, evaluate_every=2500, log_every=50),
        ),
    ),
    "curl-dcl-paper": ControlPreset(
        "the paper's numbers as they were likely made: actions 8 times, 100,000 steps of the agent",
        ControlSettings(training=ControlTraining(frames=800_000, repeat=8, learning_rate=1e-3)),
    ),
    "curl-dmc100k": ControlPreset(
        "CURL's own protocol: repeats and rate by task, 100,000 frames of the simulation",
        ControlSettings(training=ControlTraining(frames=100_000, batch=512, evaluate_every=2500)),
    ),
}

CONTROL_PRESETS = {
    name: ControlPreset(preset.what, replace(preset.settings, preset=name)) for name, preset in _PRESETS.items()
}
