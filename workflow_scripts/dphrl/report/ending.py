"""The end of a run in the terminal: result, page, audit, next step, time."""

from collections.abc import Collection
from pathlib import Path
from textwrap import shorten

from dphrl.machine.progress import duration
from dphrl.report.contents import answered_dataset
from dphrl.report.findings import overview, result, what_was_run
from dphrl.store.layout import Layout
from dphrl.store.manifest import SUMS
from dphrl.store.parquet import read_table
from dphrl.text import visible

_WIDTH = 100


def ending(layout: Layout, current: Collection[str], seconds: float) -> str:
    """The text at the end of a run whose files `current` are up to date; empty without a report among them.

    Args:
        seconds: since the start of the command.
    """
    page, sums = Path(layout.root, "report/index.html"), Path(layout.root, SUMS)
    tables = [Path(layout.root, f"tables/{name}.parquet") for name in ("headline", "passk", "keep_explore", "collapse")]
    if str(page) not in current or not all(file.exists() for file in (page, *tables)):
        return ""
    read = {file.stem: read_table(file, file.stem) for file in tables}
    said = result(overview(read, answered_dataset(layout))) or what_was_run(read["headline"])
    audited = str(sums) in current and sums.exists()
    lines = {
        "Result": shorten(said.partition(". ")[0].rstrip("."), _WIDTH - 8, placeholder=" ..."),
        "Report": str(page),
        "Audit": f"all files are as they were written, {sums}" if audited else "not part of this target",
        "Next": f"dphrl show {tables[0]}; weights are in {layout.root}/policies",
        "Time": duration(seconds),
    }
    return visible("\n".join(["", *(f"{name + ':':8}{text}" for name, text in lines.items())]))
