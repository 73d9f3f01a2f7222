"""The words follow from the numbers, whichever way they fall."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from debiased_contrastive.report.numbers import GLUE
from debiased_contrastive.report.words import summarise
from debiased_contrastive.runs import Run
from tests.report.folders import evaluation, rows, settings, write_run


def said(folder: Path, **accuracies: Sequence[float]) -> tuple[str, str]:
    runs = [
        write_run(folder / kind / str(seed), settings(kind, seed), its_evaluation=evaluation(accuracy))
        for kind, some in accuracies.items()
        for seed, accuracy in enumerate(some)
    ]
    return words(runs)


def words(runs: list[Run]) -> tuple[str, str]:
    _, what, found = (part.replace(GLUE, " ") for part in summarise(rows(runs)))
    return what, found


def headline(folder: Path, **accuracies: Sequence[float]) -> str:
    said(folder, **accuracies)
    return summarise(rows([Run(path.parent) for path in sorted(folder.rglob("settings.json"))])).headline.replace(
        GLUE, " "
    )


def test_a_clear_result(tmp_path: Path) -> None:
    what, found = said(
        tmp_path, biased=[0.700, 0.701, 0.702], debiased=[0.720, 0.721, 0.722], unbiased=[0.750, 0.751, 0.752]
    )
    assert what == (
        "3 settings of contrastive training on Fashion-MNIST (the part that comes with the package) with encoder "
        "small for 40 epochs, 3 seeds each. Accuracy is that of a linear classifier on the frozen features, on "
        "test samples, ± half of its 95 % interval over seeds."
    )
    assert found == (
        "Sampling bias costs 5.0 ± 0.0 points here: biased reaches 70.1 ± 0.2 %, unbiased (all labels) "
        "75.1 ± 0.2 %. Debiased (τ⁺ = 0.1) gains 2.0 ± 0.0 points against biased and closes 40 % of that gap; "
        "the intervals of the two do not overlap."
    )


def test_noise_is_called_noise(tmp_path: Path) -> None:
    _, found = said(tmp_path, biased=[0.70, 0.74, 0.72], debiased=[0.73, 0.71, 0.73], unbiased=[0.76, 0.71, 0.73])
    assert "That gap is within the noise of these seeds" in found
    assert "the intervals of the two overlap" in found


def test_a_loss_is_called_a_loss(tmp_path: Path) -> None:
    _, found = said(tmp_path, biased=[0.70, 0.71], debiased=[0.68, 0.69], unbiased=[0.75, 0.76])
    assert "loses 2.0 ± 0.0 points against biased and closes none of that gap" in found


def test_bias_that_costs_nothing(tmp_path: Path) -> None:
    _, found = said(tmp_path, biased=[0.75, 0.76], debiased=[0.75, 0.76], unbiased=[0.70, 0.71])
    assert found.startswith("No cost of sampling bias shows here: ")
    assert "so there is no gap to close" in found
    assert "changes by 0.0 ± 0.0 points against biased;" in found


def test_single_seeds_promise_nothing(tmp_path: Path) -> None:
    what, found = said(tmp_path, biased=[0.70], debiased=[0.72], unbiased=[0.75])
    assert "1 seed each. " in what
    assert "interval" not in what
    assert "costs 5.0 points here: biased reaches 70.0 %, unbiased (all labels) 75.0 %." in found
    assert "overlap" not in found
    assert found.endswith("Rows with a single seed have no interval: their differences may be chance.")


def test_an_end_of_the_gap_may_be_missing(tmp_path: Path) -> None:
    _, found = said(tmp_path / "a", biased=[0.70, 0.71], debiased=[0.72, 0.74])
    assert "what bias costs is unknown without an unbiased run" in found
    assert "gains 2.5 ± 6.4 points against biased, which may be chance;" in found
    _, found = said(tmp_path / "b", debiased=[0.70, 0.71])
    assert found == "For 1 row there is no biased run that agrees in all else, so no gain is known."


def test_runs_that_were_not_evaluated(tmp_path: Path) -> None:
    said = summarise(rows([write_run(tmp_path / "run", settings("biased"))]))
    assert said.headline == "No run has been evaluated yet, so there is nothing to compare."


def test_the_headline_is_what_bias_costs_and_who_wins_it_back(tmp_path: Path) -> None:
    known = settings("debiased") | {"membership": {"source": "labels", "known": 0.1}}
    write_run(tmp_path / "known", known, its_evaluation=evaluation(0.74))
    assert headline(tmp_path, biased=[0.70], debiased=[0.69], unbiased=[0.75]) == (
        "Sampling bias costs 5.0 points of accuracy here; debiased (τ⁺ = 0.1) wins back none of it, membership "
        "from 10 % of the labels wins back 80 % of it."
    )


def test_the_headline_where_the_gap_is_noise_or_nobody_knows_it(tmp_path: Path) -> None:
    noise = headline(tmp_path / "a", biased=[0.70, 0.74], debiased=[0.71, 0.73], unbiased=[0.76, 0.71])
    assert noise.endswith("here; what debiased (τ⁺ = 0.1) wins back is within the noise of these seeds.")
    assert headline(tmp_path / "b", biased=[0.75], unbiased=[0.70]).startswith(
        "No cost of sampling bias shows here"
    )
    assert headline(tmp_path / "c", biased=[0.70], debiased=[0.72]) == (
        "Debiased (τ⁺ = 0.1) gains 2.0 points against biased."
    )
    more = headline(tmp_path / "e", biased=[0.70], debiased=[0.76], unbiased=[0.75])
    assert more.endswith("debiased (τ⁺ = 0.1) wins back all of it and more (120 %).")
    assert headline(tmp_path / "d", debiased=[0.72]) == "Debiased (τ⁺ = 0.1) reaches an accuracy of 72.0 %."


def test_many_rows_get_one_sentence(tmp_path: Path) -> None:
    choices: list[tuple[str, dict[str, Any], float]] = [("biased", {}, 0.70), ("unbiased", {}, 0.80)]
    choices += [("debiased", {"num_positives": m}, 0.70 + m / 100) for m in (1, 2, 4, 8)]
    _, found = words(
        [
            write_run(tmp_path / str(place), settings(kind, **objective), its_evaluation=evaluation(accuracy))
            for place, (kind, objective, accuracy) in enumerate(choices)
        ]
    )
    assert (
        "The 4 debiased rows reach from 71.0 % (debiased, τ⁺ = 0.1) to 78.0 % (debiased, τ⁺ = 0.1, M = 8), or "
        "10 % to 80 % of the gap; the best of many is partly luck."
    ) in found


def test_a_run_that_says_little_about_itself(tmp_path: Path) -> None:
    what, _ = words([write_run(tmp_path / "run", {"seed": 1})])
    assert what == "1 setting of contrastive training, 1 seed."


def test_a_part_of_the_data_is_called_a_part(tmp_path: Path) -> None:
    part = settings("biased") | {"data": {"name": "cifar10", "classes": [0, 1, 2]}}
    assert " on 3 classes of CIFAR-10 with " in words([write_run(tmp_path / "run", part)])[0]
