"""The command `debiased`, and the domains that it serves: one row each."""

from debiased_contrastive.control.domain import CONTROL
from debiased_contrastive.images.domain import IMAGES
from debiased_contrastive.text.domain import TEXT

DOMAINS = (IMAGES, TEXT, CONTROL)
