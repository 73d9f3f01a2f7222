"""Sets of weights: two of them compared by name and shape, one looked through for what is no number."""

from collections.abc import Iterable, Mapping

from torch import Tensor

_SHOWN = 4


def state_difference(expected: Mapping[str, object], given: Mapping[str, object]) -> str:
    """What is missing, unexpected or of another shape in `given`, in one line; empty where nothing is.

    PyTorch's own report has a line for each weight, and appears after the first ones were overwritten.

    >>> import torch
    >>> state_difference({"weight": torch.zeros(2), "bias": torch.zeros(1)}, {"weight": torch.zeros(3)})
    'missing: bias; other shapes: weight (3,) instead of (2,)'
    """
    shapes = (
        f"{name} {_shape(given[name])} instead of {_shape(value)}"
        for name, value in expected.items()
        if name in given and _shape(given[name]) != _shape(value)
    )
    parts = {
        "missing": _listed(name for name in expected if name not in given),
        "unexpected": _listed(name for name in given if name not in expected),
        "other shapes": _listed(shapes),
    }
    return "; ".join(f"{title}: {names}" for title, names in parts.items() if names)


def check_finite(state: Mapping[str, object], where: str) -> None:
    """Raise where weights, at the place that is named, are no numbers any more: they would never be again."""
    for name, value in state.items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(
                f"the training diverged: {name} is not finite {where}; start again with a lower learning rate"
            )


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _listed(names: Iterable[str]) -> str:
    """The first few names, and how many follow."""
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more
