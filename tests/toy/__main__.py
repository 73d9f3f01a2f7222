"""`python -m tests.toy` is the command `debiased` with one more domain."""

from debiased_contrastive.cli import DOMAINS
from debiased_contrastive.cli.main import main
from tests.toy.domain import POINTS

main(domains=(*DOMAINS, POINTS))
