"""The check that every encoder makes of its sizes."""


def check_sizes(**sizes: int) -> None:
    """Raise where a width, a dimension or a number of channels is no positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1; got {size!r}")
