"""Other people's libraries: what this environment must define before they are imported."""

import contextlib

from benchmarks.contenders import load_torchvision

# Half of them import torchvision, whose GPU build misses operators beside a CPU torch.
with contextlib.suppress(ModuleNotFoundError):
    load_torchvision()
