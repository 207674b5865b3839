"""The content of the report, from the configuration, for the rules; not part of any code digest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dphrl.config.errors import ConfigError, Problem, show
from dphrl.report.figures import figures
from dphrl.report.published import AVERAGE, read_published
from dphrl.store.layout import Layout


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
