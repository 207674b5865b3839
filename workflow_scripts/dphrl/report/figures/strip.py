"""The trainings of a run of the embedded world among the registered ones."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from dphrl.report import theme
from dphrl.report.collapse import ASKED, REGISTERED, registered_in_words

TABLE = "headline_levels"
CAPTION = (
    "Ambiguous questions solved within 16 samples, after the last step. GRPO keeps one reading of them (37 %) where the"
    f" base model has five (92 %). {registered_in_words()}: grey dots. Coloured dots are the trainings of this run."
    " Drawn from tables/headline_levels.parquet and docs/worked-example."
)
_POLICY_16 = {"metric": "pass@16", "level": "ambiguous", "dataset": "in_domain"}


def draw(table: pl.DataFrame, datasets: Sequence[str] = ()) -> Any:
    """A row of dots for each method."""
    own = table.filter(pl.col("step") == pl.col("step").max().over("method", "seed"), **_POLICY_16)
    own = own.select("method", "seed", pl.col("value").round(6))
    if own.is_empty():
        raise ValueError("figure strip: the table has no pass@16 on ambiguous questions of in_domain")
    shown = [name for name in REGISTERED if name in set(own["method"])]
    # Seeds below 0: each row has its own place in the order.
    solved = [(name, -1 - place, right / ASKED) for name in shown for place, right in enumerate(REGISTERED[name])]
    others = pl.DataFrame(solved, own.schema, orient="row").with_columns(pl.col("value").round(6))
    rows = pl.concat([others.with_columns(whose=pl.lit("registered")), own.with_columns(whose=pl.lit("this run"))])
    rows = theme.with_policy(rows).with_columns(panel=pl.lit("in_domain, ambiguous"))
    base = alt.Chart(rows.drop("method")).encode(
        x=alt.X("value:Q", title="pass@16", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5)),
        y=theme.policy_axis(rows),
    )
    tip = [theme.POLICY_TOOLTIP, alt.Tooltip("value:Q", title="pass@16", format=".1%")]
    grey = base.mark_point(filled=True, size=45, color="#9aa1ab", opacity=0.6).encode(tooltip=tip)
    colour, shape = theme.policy_colour(rows).legend(None), theme.policy_shape(rows).legend(None)
    ours = base.mark_point(filled=True, size=90, opacity=1).encode(
        color=colour, shape=shape, tooltip=[*tip, theme.SEED_TOOLTIP]
    )
    panel = alt.layer(
        grey.transform_filter("datum.whose == 'registered'"), ours.transform_filter("datum.whose == 'this run'")
    ).properties(width=420, height={"step": 26})
    title = "This run among the registered trainings"
    return theme.faceted(panel, rows, "panel", title, 1, ["in_domain, ambiguous"], CAPTION)
