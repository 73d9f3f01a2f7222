"""Audits of embeddings and checks of the paper's statements, as pages, tables and plots."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator, PercentFormatter

from debiased_contrastive.report import plots
from debiased_contrastive.report.numbers import four_digits, markdown_table, percent, small, three_digits
from debiased_contrastive.report.page import Figure, render

_COLOURS = {"random pairs": plots.OTHER, "positive pairs": plots.DEBIASED[0], "pairs of one class": plots.UNBIASED}
_POSITIVES = {
    "pairs": "positives are the given pairs",
    "labels": "positives are rows of the same class",
    "none": "positives are taken to be equal to their anchor",
}
_SOURCES = (*plots.DEBIASED, plots.BIASED)
"""Colours of sources that take no labels, of which there are at most five."""
CLAIM_HEADER = ["claim", "printed", "measured", "corrected", "verdict", "where", "cases"]
_LINE_COLOURS = {"printed": (plots.OTHER,), "corrected": (plots.UNBIASED,), "measured": plots.DEBIASED}
_SIGNS = {"at most": "≤ ", "at least": "≥ ", "above": "> ", "equal": ""}


def render_audit(audit: Mapping[str, Any]) -> str:
    """The audit as HTML; the same audit always gives the same bytes."""
    what = (
        f"{audit['rows']:,} embeddings of {audit['features']:,} features, as a loss at temperature "
        f"{audit['temperature']:g} with batches of {audit['batch_size']:,} sees them; "
        f"{_POSITIVES[audit['positives']]}."
    )
    file = audit["source"].replace("\\", "/").rsplit("/", 1)[-1]
    parts = {
        "sources": source_rows(audit),
        "force": [_draw_force(audit)] if any(one["curve"] for one in audit["sources"]) else [],
        "settings": setting_rows(audit),
        "losses": loss_rows(audit),
        "num_anchors": audit["num_anchors"],
        "priors": prior_rows(audit),
        "false_negatives": describe_false_negatives(audit),
        "figures": [_draw_floor(audit), _draw_similarities(audit)],
        "classes": class_rows(audit),
        "num_classes": audit["num_classes"],
        "notes": audit["notes"],
    }
    return render(title=f"Sampling bias in {file}", what=what, lead=audit["advice"], audit=parts)


def source_rows(audit: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """What is known of the rows: a name, force share at strength 1, strength to use, share there, what to do."""
    rows = []
    for one in audit["sources"]:
        share, best = ("unknown" if value is None else _share(value) for value in (one["share"], one["best_share"]))
        rows.append((one["name"], share, f"{one['strength']:.2f}", best, one["words"]))
    if any(one["share"] is not None for one in audit["sources"]):
        rows.append(
            ("tau_plus", _share(0.0), "-", _share(0.0), "With one positive no direction changes, by construction.")
        )
    return rows


def _share(value: float) -> str:
    # Rounding must not make a share of exactly 0 negative.
    return f"{round(value, 2) + 0.0:.2f}"


def setting_rows(audit: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The values of tau_plus to choose from: a name, its value, what it means."""
    auto = audit["tau_plus"] == "auto"
    named = f"AutoTauPlus(prior={small(audit['prior']['value'])})" if auto else small(audit["tau_plus"])
    rows = [
        ("right in value", named, "and with one positive without effect on any direction; 0 is no correction"),
        ("best safe constant", small(audit["constant"]), "its loss is nearest to that with true negatives"),
        (
            "spread of the forces",
            f"{audit['spread_biased']:.2f} to {audit['spread_at_constant']:.2f}",
            "of their sizes beside the mean, from tau_plus=0 to that constant: all that it changes of the force",
        ),
        ("tau_eff", small(audit["tau_eff"]), "with which the correction gives the true negatives' mean; median"),
        ("largest safe tau_plus", small(audit["tau_safe"]), "leaves 95 % of the anchors off the floor"),
        ("tau_cap", small(audit["tau_cap"]), "the largest that leaves the median anchor off the floor"),
        (
            f"on the floor at {small(audit['prior']['value'])}",
            percent(audit["floored_at_prior"]),
            "share of anchors that the prior itself would put there, where they push nothing away",
        ),
    ]
    if (asked := audit["asked"]) is not None:
        name = f"on the floor at {small(asked['tau_plus'])}"
        rows.append((name, percent(asked["floored"]), "the setting that was asked for"))
    return rows


def loss_rows(audit: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The losses: a name, its value, what it means."""
    source = "measured with labels" if audit["classes"] else "guessed from the prior and the similarities"
    rows = [
        ("biased", three_digits(audit["biased_loss"]), "tau_plus=0, as it is trained without a correction"),
        ("with true negatives alone", three_digits(audit["unbiased_loss"]), source),
        (f"tau_plus={small(audit['constant'])}", three_digits(audit["loss_at_constant"]), "the best safe constant"),
        ("tau_plus auto", three_digits(audit["loss_at_auto"]), "with the prior"),
        (f"tau_plus={small(audit['prior']['value'])}", three_digits(audit["loss_at_prior"]), "the prior"),
    ]
    if (asked := audit["asked"]) is not None:
        rows.append((f"tau_plus={small(asked['tau_plus'])}", three_digits(asked["loss"]), "as asked for"))
    return rows


def prior_rows(audit: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The estimates of the prior: method, value, interval, what speaks against it."""
    rows, last = [], ""
    for one in audit["priors"]:
        against = "; ".join(one["warnings"]) or "nothing"
        interval = f"{small(one['low'])} to {small(one['high'])}"
        same = against == last and against != "nothing"
        rows.append((one["method"], small(one["value"]), interval, "as above" if same else against))
        last = against
    return rows


def class_rows(audit: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The most affected classes: name, share, false negatives, bias of the loss."""
    rows = []
    for one in audit["classes"]:
        bias = "too few anchors" if one["bias"] is None else three_digits(one["bias"])
        rows.append((one["name"], percent(one["share"]), three_digits(one["false_negatives"]), bias))
    return rows


def describe_false_negatives(audit: Mapping[str, Any]) -> str:
    """A sentence on how many false negatives an anchor meets."""
    value, low, high = (three_digits(one) for one in audit["false_negatives"])
    method = {"given": "the given prior", "labels": "the labels"}.get(audit["prior"]["method"])
    return (
        f"Of the {audit['batch_size'] - 1:,} unlabeled samples of an anchor {value} are expected to be false "
        f"negatives ({low} to {high}), by {method or audit['prior']['method']}."
    )


def _draw_force(audit: Mapping[str, Any]) -> Figure:
    free = [one for one in audit["sources"] if one["curve"] and not one["labels"]]
    few = [one for one in audit["sources"] if one["curve"] and one["labels"]]
    with plots.own_style():
        ax = plots.axes(plots.WIDTH, 3.6)
        ax.axhline(0, color=plots.INK, linewidth=0.8)
        for place, one in enumerate(free):
            (line,) = ax.plot(
                *zip(*one["curve"], strict=True), color=_SOURCES[place], linewidth=1.8, label=one["name"]
            )
            line.set_dashes(plots.DASHES[place % len(plots.DASHES)])
        for place, one in enumerate(few):
            # Darker with more labels, and only the ends are named.
            depth, name = 0.25 + 0.75 * (1 + place) / len(few), one["name"] if place in (0, len(few) - 1) else None
            ax.plot(*zip(*one["curve"], strict=True), color=plots.UNBIASED, alpha=depth, linewidth=1.2, label=name)
        lowest = min(share for one in (*free, *few) for _, share in one["curve"])
        ax.set(xlabel="strength", ylabel="force share", ylim=(max(-1.0, lowest - 0.05), 1.05))
        ax.legend(frameon=False, fontsize=8.5)
        svg = plots.inline_svg(ax, "force", "Force share against the strength of the knowledge, by source")
    caption = (
        "1 is as good as all labels, 0 is the biased force, and below it the knowledge does harm. Thin lines are "
        "classifiers on some of the labels, darker with more of them."
    )
    return Figure(svg, caption, "Force share over the strength")


def _draw_floor(audit: Mapping[str, Any]) -> Figure:
    with plots.own_style():
        ax = plots.axes(plots.WIDTH, 3.2)
        taus, shares = zip(*audit["floored"], strict=True)
        ax.plot(taus, shares, color=plots.DEBIASED[0], linewidth=1.8)
        marks = {"prior": (audit["prior"]["value"], plots.BIASED), "safe": (audit["tau_safe"], plots.UNBIASED)}
        ordered = sorted(marks.items(), key=lambda mark: mark[1][0])
        for place, (name, (tau, colour)) in enumerate(ordered):
            ax.axvline(tau, color=colour, linewidth=1.4, dashes=plots.DASHES[1 + place])
            # Away from each other, however near the lines are.
            side, where = ("right", "left")[place], ("data", "axes fraction")
            ax.annotate(f" {name} {small(tau)} ", (tau, 1.02), xycoords=where, ha=side, color=plots.INK)
        ax.set(xscale="log", xlabel="tau_plus", ylabel="anchors on the floor", ylim=(-0.02, 1.02))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: small(value)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        svg = plots.inline_svg(ax, "floor", "Share of anchors on the floor against tau_plus")
    caption = "An anchor on the floor pushes nothing away. Safe is what leaves 95 % of the anchors off it."
    return Figure(svg, caption, "tau_plus and the floor")


def _draw_similarities(audit: Mapping[str, Any]) -> Figure:
    with plots.own_style():
        ax = plots.axes(plots.WIDTH, 3.2)
        for histogram, style in zip(audit["histograms"], ("-", "--", ":"), strict=False):
            name, bars = histogram["name"], (histogram["density"], histogram["edges"])
            ax.stairs(*bars, color=_COLOURS[name], fill=True, alpha=0.18)
            ax.stairs(*bars, color=_COLOURS[name], linewidth=1.6, label=name, linestyle=style)
        ax.set(xlabel="cosine similarity", ylabel="density")
        ax.legend(frameon=False, fontsize=8.5)
        svg = plots.inline_svg(ax, "similarity", "Similarities of pairs, by kind")
    caption = (
        "Debiasing is for data where pairs of one class are nearer than random pairs. Positives that lie beyond "
        "both are stand-ins for the class, and call for a tau_plus below the prior."
    )
    return Figure(svg, caption, "Similarities of pairs")


def claim_rows(record: Mapping[str, Any]) -> list[list[str]]:
    """A row for each claim, with the case that decides it or comes nearest to its limit."""
    rows = []
    for claim in record["claims"]:
        case, sign = claim["cases"][0], _SIGNS[claim["relation"]]
        printed = "-" if case["printed"] is None else sign + four_digits(case["printed"])
        measured, corrected = four_digits(case["measured"]), sign + four_digits(case["corrected"])
        numbers = [printed, measured, corrected]
        rows.append([claim["name"], *numbers, claim["verdict"], case["where"], str(len(claim["cases"]))])
    return rows


def markdown(record: Mapping[str, Any]) -> str:
    """The table of all claims."""
    return markdown_table(CLAIM_HEADER, claim_rows(record), align="lrrrll")


def plot_claims(record: Mapping[str, Any]) -> dict[str, str]:
    """Every plot as SVG, by name."""
    return {plot["name"]: _plot(plot) for claim in record["claims"] for plot in claim["plots"]}


def _plot(plot: Mapping[str, Any]) -> str:
    with plots.own_style():
        ax = plots.axes(6.4, 3.6)
        counts: Counter[str] = Counter()
        for line in plot["lines"]:
            kind = line["kind"]
            colour = _LINE_COLOURS[kind][counts[kind] % len(_LINE_COLOURS[kind])]
            counts[kind] += 1
            look = {"color": colour, "linewidth": 1.7, "markersize": 4, "label": line["label"]}
            (curve,) = ax.plot(line["x"], line["y"], marker="o" if kind == "measured" else "", **look)
            if kind != "measured":
                curve.set_dashes(plots.DASHES[1])
        ax.set(xscale=plot["x_scale"], yscale="log", xlabel=plot["x_label"], ylabel=plot["y_label"])
        _set_plain_ticks(ax, plot["lines"])
        ax.set_title(plot["title"], fontsize=10, loc="left")
        ax.legend(frameon=False, fontsize=8.5)
        return plots.svg_file(ax, plot["name"])


def _set_plain_ticks(ax: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Numbers as they are written, at the points that were computed and at round values."""
    heights = [y for line in lines for y in line["y"]]
    is_narrow = max(heights) < 30 * min(heights)
    ax.xaxis.set_major_locator(FixedLocator(lines[0]["x"]))
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_narrow else (1,)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: four_digits(value)))
        axis.set_minor_locator(NullLocator())
