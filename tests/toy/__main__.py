"""`python -m tests.toy` is the command `debiased` with one more domain."""

from debiased_contrastive.cli.main import main
from debiased_contrastive.domains import DOMAINS
from tests.toy.domain import POINTS

main(domains=(*DOMAINS, POINTS))
