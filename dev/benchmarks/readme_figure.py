"""The figure of the README: pass@k on the ambiguous questions of the demo's world, means over all trainings.

.venv/bin/python dev/benchmarks/readme_figure.py docs/worked-example/counts.parquet docs/images/passk.svg
"""

import sys
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.methods import METHODS
from dphrl.report.figures import to_svg

SHOWN = ("base", "grpo", "dph_f", "dph_js")
SAMPLES = 16
INK, MUTED, LINE = "#20242c", "#565d69", "#e3e6ea"
# Labels closer than this would touch; a share of the axis.
APART = 0.055


def curves(counts: pl.DataFrame) -> pl.DataFrame:
    """method str, k i64 and solved f64, the mean of pass@k over questions and trainings at the last step."""
    last = counts.filter(pl.col("method").is_in(SHOWN), run="demo-full", level="ambiguous").filter(
        pl.col("step") == pl.col("step").max().over("method")
    )
    rows = []
    for method in SHOWN:
        right = last.filter(method=method)["c"].to_numpy().astype(np.int64)
        for k in range(1, SAMPLES + 1):
            rows.append((method, k, float(np.mean(pass_at_k(np.full_like(right, SAMPLES), right, k)))))
    return pl.DataFrame(rows, ["method", "k", "solved"], orient="row")


def labels(points: pl.DataFrame) -> pl.DataFrame:
    """The ends of the curves with their text, moved apart where they would touch."""
    ends = points.filter(k=SAMPLES).sort("solved")
    places: list[float] = []
    for value in ends["solved"]:
        places.append(max([value, *(place + APART for place in places[-1:])]))
    text = [
        f"{METHODS[method].label} {100 * value:.0f} %" for method, value in ends.select("method", "solved").iter_rows()
    ]
    return ends.with_columns(place=pl.Series(places), text=pl.Series(text))


def draw(points: pl.DataFrame) -> alt.LayerChart:
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


if __name__ == "__main__":
    counts, out = map(Path, sys.argv[1:])
    Path(out).write_text(to_svg(draw(curves(pl.read_parquet(counts)))), encoding="utf-8")
