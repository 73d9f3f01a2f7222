"""Official formats, folders of images and text of any size in, tensors out; each asks for its own extra."""
