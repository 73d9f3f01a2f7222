"""Control tasks as a domain for the command line and the report. Never imports torch."""

from collections.abc import Sequence
from functools import partial

from debiased_contrastive.control.settings import CONTROL_PRESETS, ControlSettings, with_task_defaults
from debiased_contrastive.domain import LOSS, Content, Demo, Domain, Metric, Work, finite_number, number_at, section
from debiased_contrastive.paper import published_number
from debiased_contrastive.training.settings import from_json


def _final_return(settings: Content, metrics: Sequence[Content], evaluation: Content) -> float | None:
    """Read the return of the evaluation; before it, the last one logged by a training that came to its end."""
    found = number_at(evaluation, "return", "mean")
    training = section(settings, "training")
    frames, repeat = (finite_number(training.get(key)) for key in ("frames", "repeat"))
    if found is not None or frames is None:
        return found
    last_step = frames // (repeat or 1)
    at_end = [line for line in metrics if (finite_number(line.get("step")) or 0) >= last_step]
    logged = [value for line in at_end if (value := finite_number(line.get("return"))) is not None]
    return logged[-1] if logged else None


def _published(settings: Content) -> float | None:
    objective, task = section(settings, "objective"), settings.get("task")
    # The published agents had floor 0.
    if not task or objective.get("floor", "zero") != "zero":
        return None
    return published_number(
        str(task),
        str(objective.get("kind")),
        tau_plus=finite_number(objective.get("tau_plus")) or 0.0,
        num_positives=objective.get("num_positives", 1),
        measure="return",
    )


def _describe_published(all_settings: Sequence[Content]) -> str:
    trainings = [section(settings, "training") for settings in all_settings]
    here = {f"{one.get('frames')} frames, actions {one.get('repeat')} times" for one in trainings}
    return (
        "Paper: Table 3, of 3 seeds; likely 800000 frames, actions 8 times, 84 pixels. "
        f"Here: {', '.join(sorted(here))}."
    )


RETURN = Metric(
    "return",
    "Return",
    "what an episode gains when the agent does what it thinks best, 1,000 at most",
    percent=False,
    decimals=0,
    compute=_final_return,
    quantity="return",
)


def _load() -> Work:
    from debiased_contrastive.control import run

    return Work(run.check_task, run.train, run.evaluate, watch=run.watch)


def _demo() -> Demo:
    from debiased_contrastive.control.run import DEMO

    return DEMO


def _name_run(settings: ControlSettings) -> str:
    return f"{settings.preset}-{settings.task}-{settings.objective.kind}-seed{settings.seed}"


CONTROL = Domain(
    name="control",
    extra="control",
    unit="frames",
    presets=CONTROL_PRESETS,
    read_settings=partial(from_json, ControlSettings),
    load=_load,
    settle=lambda settings, _flags: with_task_defaults(settings),
    name_run=_name_run,
    demo=_demo,
    cost=lambda settings: (f"{settings.training.frames:,}", "-", "depends on the task", "?"),
    results=(RETURN,),
    mains=(RETURN,),
    describe_data=lambda settings: str(settings.get("task") or ""),
    curves=(
        Metric(
            "return",
            "Return",
            "What an episode gains on the way, when the agent does what it thinks best. An evaluation afterwards "
            "plays other episodes.",
            percent=False,
        ),
        Metric("contrast_loss", "Contrastive loss", LOSS.meaning, percent=False),
    ),
    has_classes=False,
    label_words={"task": "{}"},
    summary_words={"training.frames": ("for {} frames", "for {} frames")},
    published=_published,
    describe_published=_describe_published,
    strips=(
        "What agents do",
        "From the beginning of an episode to its end; the agent sees less: smaller frames, and their middle.",
    ),
)
