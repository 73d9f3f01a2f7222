"""Frozen encoders as ONNX graphs, which onnxruntime and others run without torch."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from debiased_contrastive.files import check_can_be_written, write_atomically
from debiased_contrastive.images.frozen import ImageEncoder
from debiased_contrastive.integrations.onnx.towers import Towers
from debiased_contrastive.text.frozen import SentenceEncoder
from debiased_contrastive.text.vocabulary import FIRST

TOLERANCE = 1e-5
"""Largest difference between the graph's features and torch's, relative to the largest feature."""


def write_onnx(encoder: nn.Module, out: "str | os.PathLike[str]") -> float:
    """Write the graph of an encoder that `load_encoder` gave, after onnxruntime has computed the same with it.

    The graph of images takes `pixels` (n, c, size, size) uint8, at the size trained on; that of sentences `tokens`
    (n, l) and `lengths` (n,) int64, the ids of the run's vocabulary.json, 0 after the end of a sentence. Both give
    `features`. n and l are free.

    Args:
        encoder: The frozen encoder.
        out: The file to write.

    Returns:
        The largest difference between both, relative to the largest feature.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(f"ONNX needs {error.name}: pip install 'debiased-contrastive[onnx]'") from None
    if not hasattr(torch.onnx, "ops"):
        raise ValueError(f"ONNX graphs need a torch that has torch.onnx.ops; got {torch.__version__}: update torch")
    check_can_be_written(Path(out))
    module, inputs, free = _graph(encoder)
    graph = _export(module, inputs, free)
    difference = 0.0
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    for count in (1, 3):
        given = {name: value[:count] for name, value in inputs.items()}
        with torch.no_grad():
            wanted = encoder(**given) if isinstance(encoder, SentenceEncoder) else encoder(given["pixels"])
        found = torch.from_numpy(session.run(None, {name: value.numpy() for name, value in given.items()})[0])
        difference = max(difference, float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)))
    if not difference <= TOLERANCE:
        raise ValueError(
            f"the graph must compute what torch does, to {TOLERANCE:g}; it differs by {difference:.1g}: nothing "
            "was written, try another version of torch or onnxruntime"
        )
    write_atomically(Path(out), graph)
    return difference


def _graph(encoder: nn.Module) -> tuple[nn.Module, dict[str, Tensor], dict[str, dict[int, str]]]:
    """The module to export on the CPU, inputs by name to try it on, and which sides of them are free."""
    encoder.cpu()
    generator = torch.Generator().manual_seed(0)
    if isinstance(encoder, ImageEncoder):
        shape = (3, len(encoder.settings.views.mean), encoder.settings.views.size, encoder.settings.views.size)
        pixels = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
        return encoder, {"pixels": pixels}, {"pixels": {0: "n"}}
    if not isinstance(encoder, SentenceEncoder):
        raise ValueError(f"the encoder must be one that load_encoder gave; got a {type(encoder).__name__}")
    longest = min(encoder.longest, 9)
    lengths = torch.tensor([longest, 1, (longest + 1) // 2])
    known = encoder.tokenizer.get_vocab_size()
    tokens = torch.randint(min(FIRST, known - 1), known, (3, longest), generator=generator)
    tokens = tokens.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), 0)
    inputs = {"tokens": tokens, "lengths": lengths}
    return Towers(encoder), inputs, {"tokens": {0: "n", 1: "l"}, "lengths": {0: "n"}}


def _export(module: nn.Module, inputs: dict[str, Tensor], free: dict[str, dict[int, str]]) -> bytes:
    fast = torch.backends.mha.get_fastpath_enabled()
    # One fused operator for a whole layer of attention, which ONNX does not know.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            dynamic: Any = {
                name: {side: torch.export.Dim(word) for side, word in sides.items()} for name, sides in free.items()
            }
            program = torch.onnx.export(
                module, tuple(inputs.values()), dynamo=True, input_names=list(inputs), output_names=["features"],
                dynamic_shapes=tuple(dynamic.values()), verbose=False,
            )  # fmt: skip
            assert program is not None
            file = Path(folder) / "encoder.onnx"
            program.save(str(file), external_data=False)
            return file.read_bytes()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
