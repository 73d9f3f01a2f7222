"""Augmentations of whole batches, with parameters of their own for each image."""
