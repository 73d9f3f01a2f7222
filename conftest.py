"""Doctests are looked for in every module, but these import libraries that need not be there, and have none."""

collect_ignore_glob = ["src/debiased_contrastive/integrations/*.py"]
