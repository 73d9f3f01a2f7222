"""`python -m debiased_contrastive.cli` is the command `debiased`."""

from debiased_contrastive.cli.main import main

main()
