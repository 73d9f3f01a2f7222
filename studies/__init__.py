"""Our own questions, on the runner of `debiased_contrastive.reproduce`; not a part of the package."""
