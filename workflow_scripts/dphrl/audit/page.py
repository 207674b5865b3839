"""The audit as one self-contained page, without a script."""

import polars as pl

from dphrl.audit.run import failed_checks, kinds_of
from dphrl.pages.render import render


def render_page(table: pl.DataFrame) -> str:
    """The page of an audit: verdict, failed checks, checks by kind, every artifact with its digests.

    Args:
        table: of the schema "audit", as `audit_run` returns it.
    """
    failed = failed_checks(table)
    return render(
        "audit.html.j2",
        failed=failed,
        checks=table["passed"].sum() + len(failed),
        kinds=kinds_of(table).rows(named=True),
        artifacts=table.rows(named=True),
    )
