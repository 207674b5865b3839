"""Two figures of the trainings of demo-full on the ambiguous questions, drawn from their counts.

    .venv/bin/python dev/benchmarks/registered_figures.py docs/worked-example/counts.parquet docs

draws docs/images/passk.svg, the means of pass@k in the README, and docs/worked-example/strip.svg, pass@16 of each
training.
"""

import sys
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from registered import Counts, Floats, N

from dphrl.evaluation.estimator import pass_at_k
from dphrl.report.figures import theme, to_svg
from dphrl.report.methods import METHODS

RUN, LEVEL = "demo-full", "ambiguous"
SHOWN = ("base", "grpo", "dph_f", "dph_js")
INK, MUTED, LINE = "#20242c", "#565d69", "#e3e6ea"
# Labels closer than this would touch; a share of the axis.
APART = 0.055


def curves(right: dict[str, Floats]) -> pl.DataFrame:
    """method str, k i64 and solved f64, the mean of pass@k over questions and trainings."""
    rows = [
        (method, k, float(np.mean(pass_at_k(np.full(right[method].size, N), right[method].ravel().astype(int), k))))
        for method in SHOWN
        for k in range(1, N + 1)
    ]
    return pl.DataFrame(rows, ["method", "k", "solved"], orient="row")


def labels(points: pl.DataFrame) -> pl.DataFrame:
    """The ends of the curves with their text, moved apart where they would touch."""
    ends = points.filter(k=N).sort("solved")
    places: list[float] = []
    for value in ends["solved"]:
        places.append(max([value, *(place + APART for place in places[-1:])]))
    text = [
        f"{METHODS[method].label} {100 * value:.0f} %" for method, value in ends.select("method", "solved").iter_rows()
    ]
    return ends.with_columns(place=pl.Series(places), text=pl.Series(text))


def means(points: pl.DataFrame) -> alt.LayerChart:
    """Four lines with their names at their ends."""
    colours = alt.Scale(domain=list(SHOWN), range=[METHODS[method].colour for method in SHOWN])
    colour = alt.Color("method:N", scale=colours, legend=None)
    ticks = alt.Axis(values=[1, 2, 4, 8, 16], grid=False)
    x = alt.X("k:Q", title="tries per question (k)", scale=alt.Scale(type="log", base=2), axis=ticks)
    axis = alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])
    y = alt.Y("solved:Q", title="questions solved", scale=alt.Scale(domain=[0, 1]), axis=axis)
    lines = alt.Chart(points).mark_line(strokeWidth=3).encode(x, y, colour)
    names = alt.Chart(labels(points)).mark_text(align="left", dx=10, fontSize=15, fontWeight="bold")
    names = names.encode(x, alt.Y("place:Q", title="questions solved"), colour, text="text:N")
    chart = alt.layer(lines, names).properties(width=640, height=280, background="white", padding=10)
    axes = alt.AxisConfig(
        labelColor=MUTED,
        titleColor=INK,
        labelFontSize=13,
        titleFontSize=14,
        titleFontWeight="normal",
        gridColor=LINE,
        domainColor=MUTED,
    )
    drawn: alt.LayerChart = chart.configure(axis=axes, view=alt.ViewConfig(stroke=None))
    return drawn


def strip(solved: dict[str, Floats]) -> alt.Chart:
    """Draw pass@16 on the ambiguous questions: a row for each method, a dot for each training."""
    points = [(method, float(value)) for method, rows in solved.items() for value in np.sort(rows.mean(axis=1))]
    rows = theme.with_policy(pl.DataFrame(points, ["method", "value"], orient="row"))
    rows = rows.with_columns(panel=pl.lit("pass@16, ambiguous questions"))
    axis, scale = alt.Axis(format="%", tickCount=5), alt.Scale(domain=[0, 1])
    panel = alt.Chart(rows.drop("method")).mark_point(filled=True, size=90, opacity=0.8).encode(
        x=alt.X("value:Q", title=None, axis=axis, scale=scale),
        y=theme.policy_axis(rows),
        color=theme.policy_colour(rows).legend(None),
        shape=theme.policy_shape(rows).legend(None),
    )  # fmt: skip
    panel = panel.properties(width=420, height={"step": 26})
    names = rows["panel"].unique().to_list()
    return theme.faceted(panel, rows, "panel", "Trainings of demo-full", 1, names, strip.__doc__ or "")


if __name__ == "__main__":
    counts, docs = Counts(Path(sys.argv[1])), Path(sys.argv[2])
    passk, trainings = curves(counts.values(RUN, "c", LEVEL)), counts.values(RUN, "covered", LEVEL)
    (docs / "images/passk.svg").write_text(to_svg(means(passk)), encoding="utf-8")
    (docs / "worked-example/strip.svg").write_text(to_svg(strip(trainings)), encoding="utf-8")
