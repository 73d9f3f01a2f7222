"""A text learnt by heart: every floor has its runs, and the table holds what was worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path

from debiased_contrastive.text.settings import Text, TextTraining, Towers
from studies.sentence_floors import make_jobs, markdown
from tests.text.test_run import write


def test_floors_by_hand(tmp_path: Path) -> None:
    for name, share in (("biased", 0.0), ("floor-zero", 0.01)):
        course = [
            {"epoch": epoch / 2, "floored": share * epoch, "biased_loss": 9 - epoch / 10} for epoch in range(1, 41)
        ]
        (tmp_path / f"{name}-seed0.json").write_text(json.dumps({"course": course}))
    lines = markdown(tmp_path).splitlines()
    assert lines[0] == (
        "|  | floored, epoch 5 | biased loss, epoch 5 | floored, epoch 10 | biased loss, epoch 10 | "
        "floored, epoch 20 | biased loss, epoch 20 |"
    )
    assert lines[2] == "| biased | 0 % | 8.00 | 0 % | 7.00 | 0 % | 5.00 |"
    assert lines[3] == "| floor zero | 10 % | 8.00 | 20 % | 7.00 | 40 % | 5.00 |"


def test_a_text_learnt_by_heart_for_every_floor(tmp_path: Path) -> None:
    names = [job.name for job in make_jobs(2)]
    assert names[:5] == [
        "biased-seed0",
        *(f"floor-{floor}-seed0" for floor in ("zero", "small", "relative", "biased")),
    ]
    job = list(make_jobs(1))[1]
    text = Text(write(tmp_path / "text.txt"), vocabulary=50, longest=8)
    training = TextTraining(
        epochs=2, batch=20, learning_rate=0.01, weight_decay=0.0, accelerator="cpu", log_every=5
    )
    settings = replace(job.settings, text=text, towers=Towers("bag", 8, 6), training=training)
    found = replace(job, settings=settings).make(tmp_path / "runs")
    assert [line["step"] for line in found["course"]] == [1, 5, 10, 15, 20]
    assert all(line["biased_loss"] > 0 for line in found["course"])
