"""The suite begins where only the extra `test` is installed, as on the other Pythons and with lowest and newest versions."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_suite_is_collected_without_the_libraries_of_other_people() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    asked = [
        text
        for extra in ("docs", "test-integrations", "sentence-transformers", "metric-learning", "open-clip", "lightly",
                      "timm", "datasets", "onnx", "wandb", "mlflow", "bench")
        for text in re.findall(rf"^{extra} = \[(.+?)\]$", project, re.M | re.S)
    ]  # fmt: skip
    names = set(re.findall(r'"([a-z-]+)(?:\[\w+\])?>=', "".join(asked))) - {"scikit-learn"}
    assert {"lightly", "timm", "datasets", "mkdocs-material"} <= names
    modules = {name.replace("-", "_").removesuffix("_torch").removesuffix("_skinny") for name in names}
    absent = modules | {"torchvision", "transformers", "info_nce", "mkdocs", "griffe", "dm_control"}
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)}))\n"
        "import pytest; sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', 'tests']))"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
