"""The domains of the package, one record each. Never imports torch."""

from debiased_contrastive.control.domain import CONTROL
from debiased_contrastive.images.domain import IMAGES
from debiased_contrastive.text.domain import TEXT

DOMAINS = (IMAGES, TEXT, CONTROL)
