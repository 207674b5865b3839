"""Several finished runs pooled: differences between methods over all their trainings, and the page of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file
from dphrl.artifacts.tables import read_footer, read_table
from dphrl.config.blocks.evaluate import ClaimsConfig, EvaluateConfig
from dphrl.evaluation.claims import claims
from dphrl.evaluation.comparisons import comparisons, holm, t_interval
from dphrl.evaluation.study import Study
from dphrl.layout.names import PolicyName
from dphrl.pages.render import render
from dphrl.report.claims import difference
from dphrl.report.headline import Headline, metric_name
from dphrl.report.names import label, last_steps
from dphrl.report.views import claims_table, headline_table

_SCHEMA = {**dict.fromkeys(("run", "dataset", "metric", "method", "against"), pl.String), "difference": pl.Float64}
_PAIR = ["dataset", "metric", "method", "against"]
_MIN_REPLICATES = 100


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
    """

    name: str
    seed: int
    settings: dict[str, Any]
    headline: pl.DataFrame
    evaluations: pl.DataFrame
    digests: dict[str, str]

    @property
    def datasets(self) -> list[str]:
        """Its evaluation sets, alphabetical."""
        return self.headline["dataset"].unique().sort().to_list()

    @property
    def steps(self) -> list[int]:
        """The training steps after which its trainings are compared."""
        return self.headline.filter(pl.col("step") > 0)["step"].unique().sort().to_list()

    @property
    def shared(self) -> dict[str, Any]:
        """What must be the same in all runs that are pooled."""
        return {
            "datasets": self.datasets,
            "k": self.settings["k"],
            "confidence": self.settings["bootstrap"]["confidence"],
            "against": self.settings["against"],
            "claims": self.settings["claims"],
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


def seed_differences(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    """Differences between methods, paired over prompts, for each training.

    Returns:
        run, dataset, metric, method, against str, difference f64 (method - against), seed i32; metrics and pairs are
        those of `comparisons`, with the base and between methods of one run and seed.
    """
    found = [pl.DataFrame(schema={**_SCHEMA, "seed": pl.Int32})]
    for run in runs:
        # The intervals of these comparisons are not used, so the smallest number of resamples is enough.
        bootstrap = {**run.settings["bootstrap"], "replicates": _MIN_REPLICATES}
        config = EvaluateConfig(**{**run.settings, "bootstrap": bootstrap})
        base = run.evaluations.filter(method="base")
        trained = run.evaluations.filter(pl.col("step") > 0)
        for seed in trained["seed"].unique().sort():
            study = Study.from_evaluations(pl.concat([base, trained.filter(seed=seed)]), config, run.seed)
            rows = comparisons(study).filter(kind="prompts").with_columns(run=pl.lit(run.name))
            found.append(rows.select(*_SCHEMA, seed=pl.lit(seed, pl.Int32)))
    return pl.concat(found)


def pooled(differences: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """The table "comparisons" over all trainings of all runs: mean, t interval and t test of their differences.

    Trainings of one run share its base, so they are not quite independent; the interval treats them as if they were.

    Args:
        differences: of `seed_differences`.
        confidence: of the intervals.
    """
    rows: list[tuple[Any, ...]] = []
    for pair, group in differences.group_by(_PAIR, maintain_order=True):
        values = group["difference"].to_list()
        numbers = t_interval(values, confidence) if len(values) > 1 else (values[0], *[float("nan")] * 3)
        rows.append((*pair, "seeds", *numbers, len(values)))
    columns = SCHEMAS["comparisons"].columns
    schema = {name: columns[name] for name in (*_PAIR, "kind", "difference", "low", "high", "p", "seeds")}
    found = pl.DataFrame(rows, schema=schema, orient="row")
    family = pl.col("p").map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
    corrected = found.with_columns(p_holm=family.over("dataset", "metric"))
    return corrected.with_columns(pl.selectors.float().fill_nan(None)).sort(_PAIR)


def pooled_claims(compared: pl.DataFrame, run: FinishedRun) -> pl.DataFrame:
    """The table "claims" of pooled comparisons, by the rules that the runs share."""
    return claims(compared, ClaimsConfig(**run.settings["claims"]))


def render_pooled(
    runs: Sequence[FinishedRun], differences: pl.DataFrame, compared: pl.DataFrame, claims: pl.DataFrame
) -> str:
    """One page of several runs: their headlines side by side, pooled differences, claims.

    Args:
        differences, compared, claims: of `seed_differences`, `pooled` and `pooled_claims`.
    """
    names = [run.name for run in runs]
    headlines = {run.name: Headline(run.headline) for run in runs}
    trainings = sum(run.headline.filter(pl.col("step") > 0).select("method", "seed").n_unique() for run in runs)
    datasets = runs[0].datasets
    return render(
        "pooled.html.j2",
        title=" and ".join(names),
        lead=f"{len(runs)} runs with {trainings} trainings, evaluated on {', '.join(datasets)}.",
        headings=["Runs", "All trainings together", "Claims"],
        runs=_runs(runs),
        headlines=[headline_table(headlines, dataset) for dataset in datasets],
        differences={dataset: _compared(dataset, differences, compared, names) for dataset in datasets},
        claims_found=claims_table(claims),
    )


def _read(folder: Path) -> FinishedRun:
    path = folder / "tables" / "headline.parquet"
    if not path.is_file():
        raise RunsError(f"{folder}: no tables/headline.parquet, so it is no finished run; run snakemake to its end")
    footer = read_footer(path)
    headline = last_steps(read_table(path, "headline"))
    frames, digests = [], {}
    keys = headline.select("method", "seed", "step", "dataset").unique(maintain_order=True)
    for method, seed, step, dataset in keys.iter_rows():
        policy = PolicyName(method, seed, step)
        file = folder / f"evaluation/{policy}/{dataset}.parquet"
        if not file.is_file():
            raise RunsError(f"{folder}: no evaluation/{policy}/{dataset}.parquet; run snakemake to its end")
        named = {"method": pl.lit(method), "dataset": pl.lit(dataset)}
        numbered = {"seed": pl.lit(seed, pl.Int32), "step": pl.lit(step, pl.Int32)}
        frames.append(read_table(file, "evaluation").with_columns(**named, **numbered))
        if step:
            digests[f"{policy} on {dataset}"] = sha256_file(file)
    evaluations = pl.concat(frames)
    return FinishedRun(folder.resolve().name, footer["seed"], footer["config"], headline, evaluations, digests)


def _runs(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    prompts = [run.evaluations.select("dataset", "prompt_id").unique() for run in runs]
    rows = [
        (
            run.name,
            ", ".join(dict.fromkeys(label(name) for name in run.headline["method"])),
            ", ".join(map(str, run.headline.filter(pl.col("step") > 0)["seed"].unique().sort())),
            ", ".join(map(str, run.steps)),
            f"{own.height:,}",
            f"{own.join(prompts[0], on=own.columns, how='semi').height:,}",
        )
        for run, own in zip(runs, prompts, strict=True)
    ]
    heads = ["Run", "Policies", "Seeds", "Steps", "Prompts", f"of them in {runs[0].name}"]
    return pl.DataFrame(rows, schema=heads, orient="row")


def _compared(dataset: str, differences: pl.DataFrame, compared: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Pooled differences on one dataset, and the mean of each run."""
    here = differences.filter(dataset=dataset).group_by("metric", "method", "against", "run")
    means = {tuple(key): mean for *key, mean in here.agg(pl.col("difference").mean()).iter_rows()}
    rows = []
    for one in compared.filter(dataset=dataset).iter_rows(named=True):
        metric, pair = one["metric"], (one["metric"], one["method"], one["against"])
        value, low, high = (difference(metric, one[name]) for name in ("difference", "low", "high"))
        by_run = [difference(metric, means.get((*pair, name))) for name in names]
        chance = "-" if one["p_holm"] is None else f"{one['p_holm']:.3f}".replace("0.000", "< 0.001")
        methods = f"{label(one['method'])} - {label(one['against'])}"
        rows.append((metric_name(metric), methods, f"{value} [{low}, {high}]", *by_run, str(one["seeds"]), chance))
    heads = ["Metric", "Methods", "Difference [interval]", *(f"in {name}" for name in names), "Trainings", "p (Holm)"]
    return pl.DataFrame(rows, schema=heads, orient="row")
