"""The results as Markdown, from results made up for it."""

from typing import Any

from benchmarks.table import markdown

ENVIRONMENT = {"cpu": "A CPU", "threads": 2, "versions": {"torch": "2.13"}}


def test_views_and_training_have_a_line_for_each_contender() -> None:
    results: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "settings": {
            "benchmark": "views",
            "contenders": {"ours": "this library", "kornia-slice": "kornia, crops sliced"},
            "batch": 256,
            "views": 2,
            "size": 32,
        },
        "rows": [
            {"contender": "ours", "views_per_second": 10240.0, "seconds": 0.05, "rounds": 30},
            {"contender": "kornia-slice", "views_per_second": 2560.0, "seconds": 0.2, "rounds": 30},
        ],
        "targets": [
            {
                "measure": "views/s / kornia",
                "against": "kornia-slice",
                "value": 4.0,
                "limit": 3.0,
                "at_least": True,
                "met": True,
            }
        ],
    }
    assert (
        markdown(results)
        == """A CPU, 2 threads; torch 2.13. Batches of 256 uint8 images of 32 x 32 pixels to 2 views, float32.

|  | views/s | of ours | ms a batch | rounds |
| --- | ---: | ---: | ---: | ---: |
| this library | 10240 | 1 | 50 | 30 |
| kornia, crops sliced | 2560 | 0.25 | 200 | 30 |

| Ours | against | value | limit | met |
| --- | ---: | ---: | ---: | ---: |
| views/s / kornia | kornia, crops sliced | 4 | at least 3 | yes |
"""
    )
    results["settings"] |= {"benchmark": "training", "images": 5000}
    results["rows"] = [row | {"images_per_second": row["views_per_second"]} for row in results["rows"]]
    results["targets"] = []
    text = markdown(results)
    assert "5000 images of 32 x 32 pixels, batches of 256" in text
    assert "|  | images/s | of ours | ms an epoch | rounds |" in text
    assert text.endswith("| kornia, crops sliced | 2560 | 0.25 | 200 | 30 |\n")


def test_the_probe_has_a_line_for_each_regularisation() -> None:
    fit = {"samples": 50_000, "threads": 1, "rounds": 2}
    results: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "settings": {
            "benchmark": "probe",
            "contenders": {"ours": "this library", "scikit-learn": "scikit-learn", "whole-probe": "chosen"},
            "samples": 50_000,
            "features": 512,
            "classes": 10,
            "dtype": "float32",
        },
        "rows": [
            {"contender": "ours", "C": 1.0, "seconds": 1.5, "accuracy": 0.85, "objective": 20000.5, **fit},
            {
                "contender": "scikit-learn",
                "C": 1.0,
                "seconds": 30.0,
                "accuracy": 0.8512,
                "objective": 20000.6,
                **fit,
            },
            {"contender": "whole-probe", "C": 0.01, "seconds": 3.25, "accuracy": 0.86, "validation": {}, **fit},
        ],
        "targets": [
            {
                "C": 1.0,
                "measure": "time / scikit-learn",
                "against": "scikit-learn",
                "value": 0.05,
                "limit": 0.1,
                "met": False,
            }
        ],
    }
    lines = markdown(results).splitlines()
    assert lines[2:7] == [
        "|  | C | s | accuracy, % | objective | threads |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| this library | 1 | 1.5 | 85.00 | 20000.500 | 1 |",
        "| scikit-learn | 1 | 30 | 85.12 | 20000.600 | 1 |",
        "| chosen | 0.01 | 3.25 | 86.00 |  | 1 |",
    ]
    assert lines[-1] == "| time / scikit-learn | scikit-learn | 1 | 0.05 | 0.1 | **no** |"
