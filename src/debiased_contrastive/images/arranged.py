"""Images whose order follows what is done to them."""

import torch
from torch import Tensor


class Arranged:
    """A batch that is sorted again before each operation, so that those of one kind lie together.

    They can then be changed in place, which takes less time than to pick them out and put them back.
    """

    def __init__(self, images: Tensor, place: Tensor) -> None:
        """images (n, ...) in the order of `place` (n,), which says who each of them is; place is on the CPU."""
        self.images = images
        self.place = place
        self.spare = torch.empty_like(images)

    def sort(self, keys: Tensor) -> None:
        """Let the keys (n,) of the images, given in the order of their numbers, ascend."""
        given = keys[self.place]
        if bool((given.diff() >= 0).all()):
            return
        order = given.argsort(stable=True)
        torch.index_select(self.images, 0, order.to(self.images.device), out=self.spare)
        self.images, self.spare, self.place = self.spare, self.images, self.place[order]
