"""`debiased export`: the encoder of a run for other programs."""

from collections.abc import Sequence
from pathlib import Path

from debiased_contrastive.cli import commands
from debiased_contrastive.cli.terminal import show
from debiased_contrastive.domain import Domain, find_domain
from debiased_contrastive.runs import existing_run


def export(command: commands.Export, domains: Sequence[Domain]) -> None:
    run = existing_run(command.run)
    domain = find_domain(domains, run.domain)
    load = domain.load().load_encoder
    if load is None:
        raise ValueError(f"{command.run} is a run on {domain.name}: there are encoders of images and text alone")
    if command.to == "sentence-transformers":
        if domain.name != "text":
            raise ValueError(f"{command.run} is a run on {domain.name}: sentence-transformers takes runs on text")
        _write_sentence_transformer(command.run, command.out)
        return
    from debiased_contrastive.integrations.onnx import write_onnx

    command.out.parent.mkdir(parents=True, exist_ok=True)
    difference = write_onnx(load(command.run), command.out)
    show(f"{command.out} computes what torch does; the largest difference seen is {difference:.0e}")


def _write_sentence_transformer(folder: Path, out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} must be a folder that is empty or not there yet: choose another --out")
    try:
        from debiased_contrastive.integrations.sentence_transformers.towers import as_sentence_transformer
    # Beside a torch of another build, torchvision, which transformers looks for, raises RuntimeError.
    except (ImportError, RuntimeError) as error:
        raise ValueError(
            f"this needs sentence-transformers, which does not load ({error}): pip install "
            "'debiased-contrastive[sentence-transformers]'"
        ) from None
    as_sentence_transformer(folder).save(str(out), create_model_card=False)
    show(f"{out}: load it with SentenceTransformer({str(out)!r}, trust_remote_code=True), this package installed")
