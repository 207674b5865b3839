"""The course of training."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report.figures import theme
from dphrl.report.headline import at_published_k, datasets_in_order

_TRAINING = (
    "Training step by step, one line for each training seed. Reward shows what was learnt; entropy that falls to"
    " zero shows that a policy has settled on one way of answering. Drawn from tables/training.parquet."
)
# Metrics in the order of their panels; a metric that a run lacks gets none. A title wider than a panel would widen it.
_METRICS = {
    "reward": "Mean reward",
    "coverage_gap": "pass@8 of the rollouts less the base's, mean of 8 steps",
    "entropy": "Entropy (nats per token)",
    "divergence": "Divergence from the base",
    "response_length": "Response length (tokens)",
    "grad_norm": "Gradient norm",
    "clip_share": "Clipped tokens (share)",
    "constants": "Right without a table (share)",
    "probe_correct_pef": "Right on the probe of D_pef",
    "probe_correct_exp": "Right on the probe of D_exp",
    "probe_forward_kl_pef": "Forward KL on the probe of D_pef",
    "probe_forward_kl_exp": "Forward KL on the probe of D_exp",
    "divergence_gradient_share": "Divergence's part of the gradient",
}
# Steps of the rolling mean of the coverage gap.
_WINDOW = 8


def draw_training(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """A panel for each metric in the table, each with a separate scale."""
    shown = table.filter(pl.col("metric").is_in(_METRICS))
    title = pl.col("metric").replace_strict(_METRICS, return_dtype=pl.String)
    # A step has few prompts, and an error of about ten points.
    smooth = pl.col("value").rolling_mean(_WINDOW, min_samples=1).over("method", "seed", "metric", order_by="step")
    shown = shown.with_columns(pl.when(metric="coverage_gap").then(smooth).otherwise("value").alias("value"))
    rows = theme.with_policy(shown).with_columns(pl.col("value").round(6), title=title)
    base = theme.policy_lines(
        rows,
        "metric",
        alt.X("step:Q", title="step", axis=alt.Axis(grid=False, tickMinStep=1, tickCount=6)),
        alt.Y("value:Q", title=None, axis=alt.Axis(tickCount=5), scale=alt.Scale(zero=False)),
    )
    value = [alt.Tooltip("title:N", title="metric"), alt.Tooltip("value:Q", title="value", format=".4g")]
    line = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=14, filled=True))
    line = line.encode(detail="seed:N", tooltip=[*theme.TRAINING_TOOLTIPS, *value])
    panel = alt.layer(line).properties(width=260, height=180)
    chart = theme.faceted(panel, rows, "title", "Training", 3, list(_METRICS.values()), _TRAINING)
    return chart.resolve_scale(y="independent")


_STEPS = (
    "Pass@8 (the largest k up to 8 that was estimated) of the policies saved during training; every line"
    " starts at the base model. A line that falls while rewards rise shows collapse under way, and when it began. One"
    " line for each training seed; the interval of a point, over questions, shows under the pointer. Drawn from"
    " tables/passk.parquet."
)


def draw_steps(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """Lines over training steps, a panel per dataset."""
    table = at_published_k(table)
    ks = table["k"].unique().sort().to_list()
    k = ks[0] if len(ks) == 1 else "k"
    rows = _from_base(table).with_columns(pl.col("value", "low", "high").round(6))
    base = theme.policy_lines(
        rows.drop("k"),
        "method",
        alt.X("step:Q", title="training step", axis=alt.Axis(grid=False, tickMinStep=1, tickCount=6)),
        alt.Y("value:Q", title=f"pass@{k}", scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(format="%")),
    )
    value = alt.Tooltip("value:Q", title=f"pass@{k}", format=".1%")
    point = base.mark_point(filled=True, size=55).encode(
        shape=theme.policy_shape(rows), tooltip=[*theme.TRAINING_TOOLTIPS, value, *theme.interval_tooltips()]
    )
    line = base.mark_line(strokeWidth=2).encode(detail="seed:N")
    panel = alt.layer(line, point).properties(width=260, height=220)
    order = datasets_in_order(rows, datasets)
    return theme.faceted(panel, rows, "dataset", f"Pass@{k} over training", 3, order, _STEPS)


_PATHS = (
    "Pass@k at the largest k against mean accuracy, a point for each evaluated step and a line for each training, which"
    " starts at the base model. Sentence and table use half of this k or less, which the samples estimate better."
    " Methods gain accuracy at different speeds, so a gap after the same number of steps may be one of speed. Higher"
    " and further right is better: every point of a line can be had by stopping early. Drawn from"
    " tables/headline.parquet; tables/frontier.parquet has the accuracy bought."
)


def draw_paths(table: pl.DataFrame, datasets: Sequence[str]) -> Any:
    """A path for each training, a panel per dataset."""
    metric = pl.col("metric")
    named = table.filter(metric.str.contains(r"^(mean|pass)@\d+$")).with_columns(
        kind=metric.str.extract(r"^(\w+)@"), k=metric.str.extract(r"@(\d+)$").cast(pl.Int32)
    )
    largest = named.filter(pl.col("k") == pl.col("k").max().over("dataset", "kind"))
    ks = largest.filter(pl.col("kind") == "pass")["k"].unique()
    solved = f"pass@{ks[0]}" if len(ks) == 1 else "pass@k"
    policy = ["method", "seed", "step", "dataset"]
    points = largest.pivot("kind", on_columns=["mean", "pass"], index=policy, values="value")
    rows = _from_base(points).with_columns(pl.col("mean", "pass").round(6))
    percent = alt.Axis(format="%", tickCount=5)
    base = theme.policy_lines(
        rows,
        "method",
        alt.X("mean:Q", title="mean accuracy", scale=alt.Scale(zero=False, nice=True), axis=percent),
        alt.Y("pass:Q", title=solved, scale=alt.Scale(zero=False, nice=True), axis=percent),
    )
    titles = {"mean": "mean accuracy", "pass": solved}
    values = [alt.Tooltip(f"{name}:Q", title=title, format=".1%") for name, title in titles.items()]
    point = base.mark_point(filled=True, size=40).encode(
        shape=theme.policy_shape(rows), tooltip=[*theme.TRAINING_TOOLTIPS, *values]
    )
    line = base.mark_line(strokeWidth=1).encode(detail="seed:N", order="step:Q")
    start = alt.Chart(base.data).transform_filter("datum.step == 0").transform_aggregate(x="mean(mean)", y="mean(pass)")
    name = start.mark_text(align="left", dx=7, dy=-7).encode(x="x:Q", y="y:Q", text=alt.value("base"))
    panel = alt.layer(line, point, name).properties(width=260, height=220)
    order = datasets_in_order(rows, datasets)
    title = "The frontier: coverage against mean accuracy"
    chart = theme.faceted(panel, rows, "dataset", title, 3, order, _PATHS)
    # The base differs between the sets.
    return chart.resolve_scale(x="independent", y="independent")


def _from_base(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of the trainings, each training beginning with the row of the base, with the column `policy`."""
    trained = table.filter(pl.col("step") > 0)
    start = table.filter(pl.col("method") == "base").drop("method", "seed")
    lines = trained.select("method", "seed", "dataset").unique()
    return theme.with_policy(pl.concat([trained, lines.join(start, on="dataset").select(trained.columns)]))


FIGURES = {
    "training": theme.Figure("training", _TRAINING, draw_training),
    "steps": theme.Figure("passk", _STEPS, draw_steps),
    "paths": theme.Figure("headline", _PATHS, draw_paths),
}
