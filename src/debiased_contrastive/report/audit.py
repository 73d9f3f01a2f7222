"""The page of an audit: what to set, why, and the pictures that show it."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from debiased_contrastive.report.drawing import INK, axes, inline_svg, own_style
from debiased_contrastive.report.frame import document
from debiased_contrastive.report.markup import figure, grid, listed, section, table, text, words
from debiased_contrastive.report.number import percent, small, three_digits
from debiased_contrastive.report.palette import BIASED, DASHES, DEBIASED, OTHER, UNBIASED

_COLOURS = {"random pairs": OTHER, "positive pairs": DEBIASED[0], "pairs of one class": UNBIASED}
_POSITIVES = {
    "pairs": "positives are the given pairs",
    "labels": "positives are rows of the same class",
    "none": "positives are taken to be equal to their anchor",
}


def page(found: Mapping[str, Any]) -> str:
    """The audit as HTML; the same audit always gives the same bytes."""
    what = (
        f"{found['rows']:,} embeddings of {found['features']:,} features, as a loss at temperature "
        f"{found['temperature']:g} with batches of {found['batch_size']:,} sees them; "
        f"{_POSITIVES[found['positives']]}."
    )
    parts = (
        section("setting", "What to set", _settings(found), _losses(found)),
        section("prior", "What tau_plus is", _priors(found), _false_negatives(found)),
        section("pictures", "What it looks like", grid([_floor_figure(found), _histogram_figure(found)], "curves")),
        section("classes", "Who is affected most", _classes(found)),
        section("notes", "What limits these numbers", listed(found["notes"])),
    )
    return document(
        f"Sampling bias in {_file(found['source'])}", what, found["advice"], "\n".join(filter(None, parts))
    )


def settings_of(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What a setting of tau_plus goes by: a name, its value, what it means."""
    auto = found["tau_plus"] == "auto"
    advised = f"AutoTauPlus(prior={small(found['prior']['value'])})" if auto else small(found["tau_plus"])
    rows = [
        ("advised", advised, "see above" if auto else "0 is no correction"),
        ("best safe constant", small(found["constant"]), "its loss is nearest to that with true negatives"),
        ("tau_eff", small(found["tau_eff"]), "with which the correction gives the true negatives' mean; median"),
        ("largest safe tau_plus", small(found["tau_safe"]), "leaves 95 % of the anchors off the floor"),
        ("tau_cap", small(found["tau_cap"]), "the largest that leaves the median anchor off the floor"),
        (
            f"on the floor at {small(found['prior']['value'])}",
            percent(found["floored_at_prior"]),
            "share of anchors that the prior itself would put there, where they push nothing away",
        ),
    ]
    if (asked := found["asked"]) is not None:
        name = f"on the floor at {small(asked['tau_plus'])}"
        rows.append((name, percent(asked["floored"]), "the setting that was asked for"))
    return rows


def losses_of(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The losses: a name, its value, what it means."""
    seen = "measured with labels" if found["classes"] else "guessed from the prior and the similarities"
    rows = [
        ("biased", three_digits(found["biased_loss"]), "tau_plus=0, as it is trained without a correction"),
        ("with true negatives alone", three_digits(found["unbiased_loss"]), seen),
        (f"tau_plus={small(found['constant'])}", three_digits(found["loss_at_constant"]), "the best safe constant"),
        ("tau_plus auto", three_digits(found["loss_at_auto"]), "with the prior"),
        (f"tau_plus={small(found['prior']['value'])}", three_digits(found["loss_at_prior"]), "the prior"),
    ]
    if (asked := found["asked"]) is not None:
        rows.append((f"tau_plus={small(asked['tau_plus'])}", three_digits(asked["loss"]), "as asked for"))
    return rows


def priors_of(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The estimates of the prior: method, value, interval, what speaks against it."""
    rows, last = [], ""
    for one in found["priors"]:
        against = "; ".join(one["warnings"]) or "nothing"
        interval = f"{small(one['low'])} to {small(one['high'])}"
        same = against == last and against != "nothing"
        rows.append((one["method"], small(one["value"]), interval, "as above" if same else against))
        last = against
    return rows


def affected_of(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The most affected classes: name, share, false negatives, bias of the loss."""
    return [
        (one["name"], percent(one["share"]), three_digits(one["false_negatives"]), _bias(one["bias"]))
        for one in found["classes"]
    ]


def false_negatives(found: Mapping[str, Any]) -> str:
    """How many there are, in a sentence."""
    value, low, high = (three_digits(one) for one in found["false_negatives"])
    method = {"given": "the given prior", "labels": "the labels"}.get(found["prior"]["method"])
    return (
        f"Of the {found['batch_size'] - 1:,} unlabeled samples of an anchor {value} are expected to be false "
        f"negatives ({low} to {high}), by {method or found['prior']['method']}."
    )


def _settings(found: Mapping[str, Any]) -> str:
    headings = [("tau_plus", ""), ("value", ""), ("what it is", "")]
    return table("Settings of tau_plus at this temperature", headings, _explained(settings_of(found)))


def _losses(found: Mapping[str, Any]) -> str:
    headings = [("loss", ""), ("value", ""), ("what it is", "")]
    return table(f"Mean losses of {found['num_anchors']:,} anchors", headings, _explained(losses_of(found)))


def _priors(found: Mapping[str, Any]) -> str:
    headings = [("by", ""), ("tau_plus", ""), ("95 % interval", ""), ("against it", "")]
    return table(
        "The chance that two samples share a class, by every method that applies",
        headings,
        _explained(priors_of(found)),
    )


def _false_negatives(found: Mapping[str, Any]) -> str:
    return f"<p>{words(false_negatives(found))}</p>"


def _classes(found: Mapping[str, Any]) -> str:
    if not found["classes"]:
        return ""
    headings = [
        ("class", ""),
        ("share", "of all rows with a label"),
        ("false negatives", "expected for each anchor of the class"),
        ("bias of the loss", "biased minus unbiased, mean over its anchors"),
    ]
    caption = f"The most affected of {found['num_classes']:,} classes, by the bias of their anchors' loss"
    return table(caption, headings, _marked(affected_of(found)))


def _bias(value: float | None) -> str:
    return "too few anchors" if value is None else three_digits(value)


def _marked(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[text(cell) for cell in row] for row in rows]


def _explained(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells of which the last is a sentence."""
    return [[*(text(cell) for cell in row[:-1]), f'<span class="words">{words(row[-1])}</span>'] for row in rows]


def _floor_figure(found: Mapping[str, Any]) -> str:
    with own_style():
        ax = axes(4.8, 3.2)
        taus, shares = zip(*found["floored"], strict=True)
        ax.plot(taus, shares, color=DEBIASED[0], linewidth=1.8)
        marks = {"prior": (found["prior"]["value"], BIASED), "safe": (found["tau_safe"], UNBIASED)}
        ordered = sorted(marks.items(), key=lambda mark: mark[1][0])
        for place, (name, (tau, colour)) in enumerate(ordered):
            ax.axvline(tau, color=colour, linewidth=1.4, dashes=DASHES[1 + place])
            # Away from each other, however near the lines are.
            side = ("right", "left")[place]
            ax.annotate(
                f" {name} {small(tau)} ", (tau, 1.02), xycoords=("data", "axes fraction"), ha=side, color=INK
            )
        ax.set(xscale="log", xlabel="tau_plus", ylabel="anchors on the floor", ylim=(-0.02, 1.02))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: small(value)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        svg = inline_svg(ax, "floor", "Share of anchors on the floor against tau_plus")
    caption = "An anchor on the floor pushes nothing away. Safe is what leaves 95 % of the anchors off it."
    return figure(svg, caption, "tau_plus and the floor")


def _histogram_figure(found: Mapping[str, Any]) -> str:
    with own_style():
        ax = axes(4.8, 3.2)
        for place, histogram in enumerate(found["histograms"]):
            colour = _COLOURS[histogram["name"]]
            ax.stairs(histogram["density"], histogram["edges"], color=colour, fill=True, alpha=0.18)
            ax.stairs(
                histogram["density"],
                histogram["edges"],
                color=colour,
                linewidth=1.6,
                label=histogram["name"],
                linestyle=("-", "--", ":")[place],
            )
        ax.set(xlabel="cosine similarity", ylabel="density")
        ax.legend(frameon=False, fontsize=8.5)
        svg = inline_svg(ax, "similarity", "Similarities of pairs, by kind")
    caption = (
        "Debiasing is for data where pairs of one class are nearer than random pairs. Positives that lie beyond "
        "both are stand-ins for the class, and call for a tau_plus below the prior."
    )
    return figure(svg, caption, "Similarities of pairs")


def _file(source: str) -> str:
    return source.replace("\\", "/").rsplit("/", 1)[-1]
