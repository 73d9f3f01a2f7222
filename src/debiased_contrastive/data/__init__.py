"""Official formats and folders of images in, tensors out; it needs NumPy, and folders need Pillow."""
