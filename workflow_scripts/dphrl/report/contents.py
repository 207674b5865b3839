"""For the rules, and in no digest of code: the content of the report by the configuration, and the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from textwrap import shorten

from dphrl.config.errors import ConfigError, Problem, show
from dphrl.machine.progress import duration
from dphrl.report.figures import figures
from dphrl.report.findings import overview, result, what_was_run
from dphrl.report.published import AVERAGE, read_published
from dphrl.store.layout import Layout
from dphrl.store.manifest import SUMS
from dphrl.store.parquet import read_table
from dphrl.text import visible

_WIDTH = 100


def published(layout: Layout) -> str | None:
    """The setting of the paper that the run follows.

    Raises:
        ConfigError: `evaluate.published` has no column for any evaluation set.
    """
    evaluate = layout.config.evaluate
    if evaluate.published is None:
        return None
    columns = [column for table in read_published(evaluate.published) for column in table["columns"]]
    sets = list(dict.fromkeys(column.partition(" ")[0] for column in columns if column != AVERAGE))
    if not {*sets} & {*evaluate.datasets}:
        allowed = f"null, or a setting with these sets; {evaluate.published} has {', '.join(sets)}"
        raise ConfigError([Problem("evaluate.published", show(evaluate.published), allowed)])
    return evaluate.published


def drawn(layout: Layout) -> list[str]:
    """Names of the figures with data in this run."""
    config, evaluate, policies = layout.config, layout.config.evaluate, layout.policies()
    evaluated = Counter((policy.method, policy.seed) for policy in policies if policy.step)
    several_steps = max(evaluated.values(), default=0) > 1
    most_samples = max(map(config.sampling.evaluate.samples, evaluate.datasets))
    needs = {
        "gap": len(policies) > 1 and "base" in evaluate.against,
        # Two draws of the base compare too.
        "keep_explore": len(policies) > 1 or most_samples >= 2 * min(evaluate.k),
        "paths": several_steps,
        "steps": several_steps,
        "styles": any(evaluate.styles.get(config.datasets[name].task) for name in evaluate.datasets),
        "training": config.methods,
    }
    return [name for name in figures() if needs.get(name, True)]


def facts(layout: Layout) -> dict[str, str]:
    """Facts about the run for the head of the page."""
    config = layout.config
    base = Path(config.policy.base).name if config.policy.base else "made for this run"
    run = {
        "Run": config.run,
        "Base policy": base if config.has_model else "recorded answers",
        "Evaluated on": ", ".join(config.evaluate.datasets),
    }
    places = config.checkpoints.items()
    if places:
        counts = [name if isinstance(place, str) else f"{name} ({len(place)})" for name, place in places]
        run["Checkpoints"] = ", ".join(counts)
    if not config.methods:
        return run
    seeds = ", ".join(map(str, config.train.seeds))
    return run | {"Trained on": config.train_dataset, "Training seeds": seeds}


def answered_dataset(layout: Layout) -> str:
    """The evaluation set that the answers on the page are about: the first one in domain, or else the first."""
    roles = layout.config.roles
    return next((name for name, role in roles.items() if role == "in_domain"), next(iter(roles)))


def sampled_datasets(layout: Layout) -> list[str]:
    """The evaluation sets with a page of samples."""
    config = layout.config
    return list(config.evaluate.datasets) if config.report.samples.megabytes else []


def sampled_policies(layout: Layout) -> dict[str, str]:
    """The policies whose samples the page shows, by method: the last step of its first seed, the first checkpoint."""
    first = layout.config.train.seeds[0]
    shown = [policy for policy in layout.policies() if policy.seed == first or (not policy.step and policy.seed <= 1)]
    return {policy.method: str(policy) for policy in shown}


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
