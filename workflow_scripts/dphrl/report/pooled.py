"""Several finished runs pooled: differences between methods over all their trainings, and the page of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file, write_text
from dphrl.artifacts.tables import content_digest, read_footer, read_table, write_table
from dphrl.config.blocks.evaluation import ClaimsConfig, EvaluateConfig
from dphrl.evaluation.claims import claims
from dphrl.evaluation.comparisons import comparisons, corrected
from dphrl.evaluation.crossed import Estimate, Part, mean_of
from dphrl.evaluation.names import BASE
from dphrl.evaluation.study import Study
from dphrl.layout.methods import label
from dphrl.layout.names import PolicyName
from dphrl.pages.numbers import probability
from dphrl.pages.render import render
from dphrl.report.answers import claims_markdown
from dphrl.report.headline import (
    OF_TRAININGS,
    Headline,
    difference_text,
    how_to_read,
    interval_text,
    last_steps,
    metric_name,
)
from dphrl.report.page_tables import claims_table, headline_table

_PAIR = ["dataset", "metric", "method", "against"]
_MIN_REPLICATES = 100
FEWEST_BASES = 3


class RunsError(ValueError):
    """A folder is not a finished run, or runs cannot be pooled."""


@dataclass(frozen=True)
class FinishedRun:
    """The tables and settings of a run that are pooled.

    Attributes:
        name: the name of its folder.
        seed: of its bootstrap.
        settings: of its tables: k, bootstrap, against, claims.
        headline: its headline table, the last step of each method and seed.
        evaluations: method, seed, step, dataset and the columns of the table "evaluation", of the same policies.
        digests: sha256 of the evaluation of each trained policy on each dataset, by "policy on dataset".
        base: a digest of the evaluations of the base.
    """

    name: str
    seed: int
    settings: dict[str, Any]
    headline: pl.DataFrame
    evaluations: pl.DataFrame
    digests: dict[str, str]
    base: str

    @property
    def datasets(self) -> list[str]:
        """Its evaluation sets, alphabetical."""
        return self.headline["dataset"].unique().sort().to_list()

    @property
    def steps(self) -> list[int]:
        """The training steps after which its trainings are compared; 0 for checkpoints of another trainer."""
        return self.headline.filter(OF_TRAININGS)["step"].unique().sort().to_list()

    @property
    def shared(self) -> dict[str, Any]:
        """Settings that must agree in pooled runs."""
        return {
            "datasets": self.datasets,
            "k": self.settings["k"],
            "confidence": self.settings["bootstrap"]["confidence"],
            "against": self.settings["against"],
            "claims": self.settings["claims"],
            "roles": self.settings["roles"],
            "steps": self.steps,
        }


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read finished runs and check that they can be pooled.

    Raises:
        RunsError: a folder holds no finished run, two have the same name, two hold the same training, or runs differ in
            datasets, k, confidence, methods to compare with, rules of claims or steps; the text names run and key.
    """
    runs = [_read(folder) for folder in folders]
    first = runs[0]
    for place, run in enumerate(runs[1:], start=1):
        if run.name in {other.name for other in runs[:place]}:
            raise RunsError(f"{folders[place]}: a second run of the name {run.name!r}; rename its folder")
        differing = [key for key in run.shared if run.shared[key] != first.shared[key]]
        if differing:
            key = differing[0]
            raise RunsError(
                f"{folders[place]}: {key} is {run.shared[key]!r}, in {first.name} it is {first.shared[key]!r};"
                " pooled runs must agree in this: evaluate one of them again"
            )
        for other in runs[:place]:
            same = [name for name, digest in run.digests.items() if digest in other.digests.values()]
            if same:
                raise RunsError(
                    f"{folders[place]}: {same[0]} is the same file as in {other.name}; one training counts once:"
                    " leave one of the two out"
                )
    return runs


def differences_by_run(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    """The table "comparisons" of each run, below each other, with the column run first."""
    return pl.concat(comparisons(_study([run])).select(pl.lit(run.name).alias("run"), pl.all()) for run in runs)


def pooled(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    """The table "comparisons" over all trainings of all runs.

    Runs whose base gave the same answers share a base model: their trainings are compared like trainings of one run.
    Differences on several base models weigh alike. With three base models or more, the base is a random effect: the
    interval is over the differences of the bases. With two, the interval holds for these two bases only.
    """
    bases: dict[str, list[FinishedRun]] = {}
    for run in runs:
        bases.setdefault(run.base, []).append(run)
    by_base = pl.concat(comparisons(_study(group)).with_columns(base=pl.lit(name)) for name, group in bases.items())
    rows = [
        _over_bases(pair.rows(named=True), runs[0].settings["bootstrap"]["confidence"])
        for _, pair in by_base.group_by(_PAIR, maintain_order=True)
    ]
    return corrected(SCHEMAS["comparisons"].frame(rows))


def pooled_claims(compared: pl.DataFrame, run: FinishedRun) -> pl.DataFrame:
    """The table "claims" of pooled comparisons, by the rules that the runs share.

    It is without claims about a level or at equal mean.
    """
    rules = ClaimsConfig(**run.settings["claims"])
    plain = tuple(claim for claim in rules.primary if claim.level is None and claim.at_mean is None)
    rules = rules.model_copy(update={"primary": plain})
    return claims(compared, SCHEMAS["comparisons_levels"].frame(), run.settings["roles"], rules)


def write_pooled(runs: Sequence[FinishedRun], out: Path) -> None:
    """Write the page and the tables of finished runs into a folder.

    Raises:
        RunsError: the runs contain no training.
    """
    differences = differences_by_run(runs)
    if differences.is_empty():
        raise RunsError("no run has a training, so there is nothing to pool")
    compared = pooled(runs)
    claims = pooled_claims(compared, runs[0])
    inputs = {
        run.name: {
            "paths": [f"{run.name}/tables/headline.parquet"],
            "digest": content_digest(run.headline, "headline"),
        }
        for run in runs
    }
    footer = {"stage": "together", "config": runs[0].settings, "inputs": inputs}
    write_table(compared, "comparisons", out / "comparisons.parquet", footer)
    write_table(claims, "claims", out / "claims.parquet", footer)
    headlines = pl.concat(run.headline.select(pl.lit(run.name).alias("run"), pl.all()) for run in runs)
    write_text(out / "headline.csv", headlines.write_csv())
    write_text(out / "differences.csv", differences.drop("trainings", strict=False).write_csv())
    write_text(out / "claims.md", claims_markdown(claims))
    write_text(out / "index.html", render_pooled(runs, differences, compared, claims))


def render_pooled(
    runs: Sequence[FinishedRun], differences: pl.DataFrame, compared: pl.DataFrame, claims: pl.DataFrame
) -> str:
    """One page of several runs: their headlines side by side, pooled differences, claims.

    Args:
        differences, compared, claims: of `differences_by_run`, `pooled` and `pooled_claims`.
    """
    names = [run.name for run in runs]
    headlines = {run.name: Headline(run.headline) for run in runs}
    trainings = sum(run.headline.filter(OF_TRAININGS).select("method", "seed").n_unique() for run in runs)
    datasets = runs[0].datasets
    return render(
        "pooled.html.j2",
        title=" and ".join(names),
        lead=f"{len(runs)} runs with {trainings} trainings, evaluated on {', '.join(datasets)}.",
        headings=["Runs", "All trainings together", "Claims"],
        bases=len({run.base for run in runs}),
        runs=_runs(runs),
        how_to_read=how_to_read({metric for run in runs for metric in run.headline["metric"]}),
        headlines=[headline_table(headlines, dataset) for dataset in datasets],
        differences={dataset: _compared(dataset, differences, compared, names) for dataset in datasets},
        claims_found=claims_table(claims),
    )


def _read(folder: Path) -> FinishedRun:
    path = folder / "tables" / "headline.parquet"
    if not path.is_file():
        raise RunsError(f"{folder}: no tables/headline.parquet, so it is no finished run; run snakemake to its end")
    footer = read_footer(path)
    settings = footer["config"].get("evaluate", {})
    if "roles" not in settings:
        raise RunsError(f"{folder}: made by an earlier version; run snakemake again to make its tables anew")
    headline = last_steps(read_table(path, "headline"))
    frames, digests, of_base = [], {}, []
    keys = headline.select("method", "seed", "step", "dataset").unique(maintain_order=True)
    for method, seed, step, dataset in keys.iter_rows():
        policy = PolicyName(method, seed, step)
        file = folder / f"evaluation/{policy}/{dataset}.parquet"
        if not file.is_file():
            raise RunsError(f"{folder}: no evaluation/{policy}/{dataset}.parquet; run snakemake to its end")
        named = {"method": pl.lit(method), "dataset": pl.lit(dataset)}
        numbered = {"seed": pl.lit(seed, pl.Int32), "step": pl.lit(step, pl.Int32)}
        frames.append(read_table(file, "evaluation").with_columns(**named, **numbered))
        if seed or step:
            digests[f"{policy} on {dataset}"] = sha256_file(file)
        elif method == BASE:
            of_base.append(sha256_file(file))
    evaluations, base = pl.concat(frames), " ".join(sorted(of_base))
    return FinishedRun(folder.resolve().name, footer["seed"], settings, headline, evaluations, digests, base)


def _study(runs: Sequence[FinishedRun]) -> Study:
    """The trainings of runs with one base; seeds are numbered anew, as two runs may have used one number."""
    first = runs[0]
    # No interval of the bootstrap is used, so the smallest number of resamples is enough.
    bootstrap = {**first.settings["bootstrap"], "replicates": _MIN_REPLICATES}
    frames = [first.evaluations.filter(method=BASE)]
    for place, run in enumerate(runs):
        trained = run.evaluations.filter(OF_TRAININGS)
        frames.append(trained.with_columns(seed=(pl.col("seed") * len(runs) + place).cast(pl.Int32)))
    config = EvaluateConfig(**{**first.settings, "bootstrap": bootstrap})
    return Study.from_evaluations(pl.concat(frames), config, first.seed)


def _over_bases(rows: Sequence[dict[str, Any]], confidence: float) -> dict[str, Any]:
    """A row of "comparisons" from the rows of all bases."""
    if len(rows) == 1:
        return rows[0]
    values = np.array([row["difference"] for row in rows])
    parts = [Part(row["error"] ** 2, row["freedom"]) for row in rows if row["error"] is not None]
    if len(rows) >= FEWEST_BASES:
        # Bases that all agree show no variance.
        error, freedom = float(values.std(ddof=1) / np.sqrt(len(rows))) or float("nan"), len(rows) - 1.0
    elif len(parts) == len(rows):
        mean = mean_of(parts)
        error, freedom = float(np.sqrt(mean.variance)), mean.freedom
    else:
        error, freedom = float("nan"), float("nan")
    over = Estimate(float(values.mean()), error, freedom)
    low, high = over.interval(confidence)
    numbers = {name: sum(row[name] for row in rows) for name in ("seeds", "seeds_against", "questions")}
    estimates = {"difference": over.value, "low": low, "high": high, "error": error, "freedom": freedom, "p": over.p}
    unknown: dict[str, Any] = {
        "of_seeds": float("nan"),
        "of_questions": 0.0,
        "of_both": 0.0,
        "clusters": None,
        "trainings": [],
    }
    return {**{name: rows[0][name] for name in _PAIR}, **estimates, **numbers, **unknown}


def _runs(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    prompts = [run.evaluations.select("dataset", "prompt_id").unique() for run in runs]
    rows = [
        (
            run.name,
            ", ".join(dict.fromkeys(label(name) for name in run.headline["method"])),
            ", ".join(map(str, run.headline.filter(OF_TRAININGS)["seed"].unique().sort())),
            ", ".join(map(str, run.steps)),
            f"{own.height:,}",
            f"{own.join(prompts[0], on=own.columns, how='semi').height:,}",
        )
        for run, own in zip(runs, prompts, strict=True)
    ]
    heads = ["Run", "Policies", "Seeds", "Steps", "Prompts", f"of them in {runs[0].name}"]
    return pl.DataFrame(rows, schema=heads, orient="row")


def _compared(dataset: str, differences: pl.DataFrame, compared: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Pooled differences on one dataset, next to the difference in each run."""
    here = differences.filter(dataset=dataset).select("metric", "method", "against", "run", "difference")
    of_run = {tuple(key): value for *key, value in here.iter_rows()}
    rows = []
    for row in compared.filter(dataset=dataset).iter_rows(named=True):
        pair = (row["metric"], row["method"], row["against"])
        by_run = [difference_text(row["metric"], of_run.get((*pair, name))) for name in names]
        methods = f"{label(row['method'])} - {label(row['against'])}"
        numbers = (interval_text(row), *by_run, str(row["seeds"]), probability(row["p_holm"]))
        rows.append((metric_name(row["metric"]), methods, *numbers))
    heads = ["Metric", "Methods", "Difference [95 %]", *(f"in {name}" for name in names), "Trainings", "p (Holm)"]
    return pl.DataFrame(rows, schema=heads, orient="row")
