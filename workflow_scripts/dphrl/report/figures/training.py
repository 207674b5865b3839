"""What happened during training."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme

TABLE = "training"
CAPTION = (
    "Training step by step, one line for each training seed. Reward shows what was learnt; entropy that falls to"
    " zero shows that a policy has settled on one way of answering. Drawn from tables/training.parquet."
)
# Shown in this order where a run has them.
METRICS = {
    "reward": "Mean reward",
    "entropy": "Entropy (nats per token)",
    "divergence": "Divergence from the base model",
    "response_length": "Response length (tokens)",
    "grad_norm": "Gradient norm",
    "clip_share": "Share of clipped tokens",
    "constants": "Share of right answers that read no table",
    "probe_correct_pef": "Share right on the probe of D_pef",
    "probe_correct_exp": "Share right on the probe of D_exp",
    "probe_forward_kl_pef": "Forward KL on the probe of D_pef (nats per token)",
    "probe_forward_kl_exp": "Forward KL on the probe of D_exp (nats per token)",
    "divergence_gradient_share": "The divergence's share of the gradient",
}


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """A panel for each metric that the table has, each on its own scale."""
    shown = table.filter(pl.col("metric").is_in(METRICS))
    if shown.is_empty():
        found = ", ".join(sorted(set(table["metric"]))) or "none"
        raise ValueError(f"figure training: the table has none of the metrics {', '.join(METRICS)}; it has {found}")
    title = pl.col("metric").replace_strict(METRICS, return_dtype=pl.String)
    rows = theme.with_policy(shown).with_columns(pl.col("value").round(6), title=title)
    base, selected = theme.policy_lines(
        rows,
        "metric",
        alt.X("step:Q", title="step", axis=alt.Axis(grid=False, tickMinStep=1, tickCount=6)),
        alt.Y("value:Q", title=None, axis=alt.Axis(tickCount=5), scale=alt.Scale(zero=False)),
    )
    value = [alt.Tooltip("title:N", title="metric"), alt.Tooltip("value:Q", title="value", format=".4g")]
    line = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=14, filled=True)).add_params(selected)
    line = line.encode(detail="seed:N", tooltip=[*theme.TRAINING_TOOLTIPS, *value]).properties(name="lines")
    panel = alt.layer(line).properties(width=260, height=180)
    chart = theme.faceted(panel, rows, "title", "Training", 3, list(METRICS.values()), CAPTION)
    return chart.resolve_scale(y="independent")
