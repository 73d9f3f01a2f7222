"""Before any test here imports a library that imports torchvision."""

import importlib.util

from benchmarks.contenders import load_torchvision

if importlib.util.find_spec("torchvision") is not None:
    load_torchvision()
