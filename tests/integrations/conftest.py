"""Other people's libraries: what this environment must define before they are imported."""

from benchmarks.contenders import load_torchvision

# Half of them import torchvision, whose GPU build misses operators beside a CPU torch.
load_torchvision()

# Doctests are looked for in every module: this one has none, and needs the extra sentence-transformers.
collect_ignore = ["sentences.py"]
