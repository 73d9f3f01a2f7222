"""Named settings for text: the paper's Quick-Thoughts, and towers that two cores can train."""

from dataclasses import dataclass, replace

from debiased_contrastive.text.settings import Text, TextObjective, TextSettings, Towers
from debiased_contrastive.training.settings import Training


@dataclass(frozen=True)
class TextPreset:
    """Settings with a line that says what they are."""

    what: str
    settings: TextSettings


_PAPER = TextSettings(
    text=Text(held_out=50_000),
    training=Training(
        epochs=1, batch=400, learning_rate=5e-4, weight_decay=0.0, clip=5.0, log_every=100, checkpoint_every=5000
    ),
)
_SMALL = TextSettings(
    text=Text(vocabulary=20_000, longest=30),
    towers=Towers(word_dim=100, hidden_dim=64),
    # Few steps need larger ones than the 114,466 of the paper.
    training=replace(_PAPER.training, epochs=2, batch=200, learning_rate=3e-3, log_every=10, checkpoint_every=200),
)

_PRESETS = {
    "quickthoughts-small": TextPreset("neighbouring sentences of any text, small towers", _SMALL),
    "quickthoughts-normalised": TextPreset(
        "the same between unit vectors, with a temperature",
        replace(_SMALL, objective=TextObjective(temperature=0.1, floor="bound")),
    ),
    "quickthoughts": TextPreset("the paper's towers and batch; give --corpus, such as BookCorpus", _PAPER),
}

TEXT_PRESETS = {
    name: TextPreset(preset.what, replace(preset.settings, preset=name)) for name, preset in _PRESETS.items()
}
