"""MkDocs hook: the report and the diagnosis of the gallery, made from committed counts when the site is built."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from dphrl.cli import main
from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import tabulate
from dphrl.report import figures
from dphrl.report.collapse import collapse
from dphrl.report.page import render_page
from dphrl.store.catalogue import SCHEMAS

COUNTS, RUN, DATASET = "docs/worked-example/counts.parquet", "demo-full-paths", "in_domain"
FIGURES = ("paths", "passk", "gap", "keep_explore", "steps")
NOTE = "Made from the counts of the second registration: without texts, timings and the metrics of the trainings."


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add both pages; docs/gallery.md links to them."""
    root = Path(config.config_file_path).parent
    for name, page in (("report", _report(root / COUNTS)), ("diagnosis", _diagnosis(root / "examples/reasoning_gym"))):
        files.append(File.generated(config, f"gallery/{name}.html", content=page))
    return files


def _report(counts: Path) -> str:
    """The report page of the registered trainings that were evaluated every 8 steps."""
    rows = pl.read_parquet(counts).filter(run=RUN)
    evaluations = rows.select(
        "method",
        "seed",
        "step",
        "level",
        dataset=pl.lit(DATASET),
        prompt_id=pl.col("question").cast(pl.String).str.zfill(5),
        n=pl.lit(16, pl.Int32),
        c=pl.col("c").cast(pl.Int32),
        greedy_correct="greedy",
        styles=pl.lit([], pl.List(pl.String)),
        distinct_styles=pl.lit(0, pl.Int32),
    )
    evaluate = EvaluateConfig(datasets=(DATASET,), k=(1, 2, 4, 8, 16), against=("base", "grpo"))
    study = Study.from_evaluations(evaluations, evaluate, seed=1)
    tables = tabulate(study) | collapse(study)
    questions = evaluations["prompt_id"].n_unique()
    columns = dict.fromkeys(SCHEMAS["datasets"].columns, 0)
    counted = columns | {"dataset": DATASET, "rows": questions, "prompts": questions, "kept": questions}
    return render_page(
        run=RUN,
        title=None,
        tables=tables | {"datasets": SCHEMAS["datasets"].frame([counted])},
        dataset=DATASET,
        order=[DATASET],
        figures={name: figures.draw(name, tables[figures.figure(name).table]).to_dict() for name in FIGURES},
        published=[],
        use=None,
        timings={},
        facts={"Run": RUN, "Evaluated on": DATASET},
        notes=[NOTE],
        sampled=[],
    )


def _diagnosis(pair: Path) -> str:
    """The page of `dphrl diagnose` on two published files."""
    with TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        files = [str(pair / name) for name in ("base.json", "tuned.json")]
        with redirect_stdout(StringIO()):
            main(["diagnose", *files, "--threshold", "1", "--html", str(page)])
        return page.read_text(encoding="utf-8")
