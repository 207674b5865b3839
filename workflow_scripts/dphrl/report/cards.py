"""Model cards: the README.md of a trained policy's folder, with metadata for the Hugging Face Hub."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from dphrl.evaluation.names import STYLES
from dphrl.report.headline import headline_markdown, metric_name
from dphrl.report.methods import label
from dphrl.report.render import TEMPLATES
from dphrl.report.text_tables import Table, markdown, markdown_table
from dphrl.store.policy_names import BASE, PolicyName


@dataclass(frozen=True)
class Run:
    """Facts of a run that appear on the cards of all its policies.

    Attributes:
        base: the folder name of the base model; None for a base model that the run made.
        train_dataset: the training set.
        tasks: the task of each dataset.
        supervised: updates and rows of the base's supervised start; None without one.
        headline, datasets, training: the tables of these names.
    """

    base: str | None
    train_dataset: str
    tasks: Mapping[str, str]
    supervised: str | None
    headline: pl.DataFrame
    datasets: pl.DataFrame
    training: pl.DataFrame


def card(
    policy: PolicyName,
    run: Run,
    config: Mapping[str, Any],
    folder_digest: str,
    sizes: Mapping[str, int],
    command: str,
) -> str:
    """The model card of a policy; equal arguments give equal text.

    Args:
        config: the config slice of its training, from its manifest.
        folder_digest: the digest of its manifest.
        sizes: training prompts by subset, in the draw of stage 1 that the training used.
        command: the shell command that makes the policy again.
    """
    # `train.stop` may have ended the training before this step.
    steps = run.training.filter(pl.col("step") <= policy.step, method=policy.method, seed=policy.seed)["step"]
    own = run.headline.filter(method=policy.method, seed=policy.seed, step=policy.step)
    title = f"{label(policy.method)}, seed {policy.seed}, step {policy.step}"
    base = markdown(run.base) if run.base else "a base model that the same run made"
    start = f", after a supervised start of {markdown(run.supervised)}" if run.supervised else ""
    shown = json.dumps(config, indent=1, sort_keys=True)
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=run.base,
        tags=["reinforcement-learning", "dph-rl", policy.method],
        model_name=title,
        eval_results=list(_results(own, run)),
    )
    made = ModelCard.from_template(
        metadata,
        template_path=str(TEMPLATES / "card.md.j2"),
        title=title,
        base=f"{base}{start}",
        folder_digest=folder_digest,
        method=_method(steps.n_unique(), config),
        train_dataset=run.train_dataset,
        pef=sizes.get("pef", 0),
        exp=sizes.get("exp", 0),
        datasets=_datasets(run),
        styles=STYLES in own["metric"],
        results=headline_markdown(pl.concat([run.headline.filter(method=BASE.method), own])),
        config=shown,
        config_digest=hashlib.sha256(shown.encode()).hexdigest(),
        command=command,
    )
    return f"{made}\n"


def _results(own: pl.DataFrame, run: Run) -> Iterator[EvalResult]:
    """The values of a policy for the metadata, in per cent where they are shares."""
    for row in own.iter_rows(named=True):
        name, metric = row["dataset"], row["metric"]
        scale = 1.0 if metric == STYLES else 100.0
        value, low, high = (round(scale * row[key], 2) for key in ("value", "low", "high"))
        yield EvalResult(
            task_type="text-generation",
            task_name=run.tasks[name],
            dataset_type=name,
            dataset_name=name,
            metric_type=metric,
            metric_name=metric_name(metric),
            metric_value=value,
            metric_args={"low": low, "high": high, "confidence": 0.95},
        )


def _method(steps: int, config: Mapping[str, Any]) -> str:
    """The training in two sentences: steps, prompts, rollouts, divergence and subsets."""
    train, method = config["train"], config["method"]
    prompts = {"all": "the whole training set", "exp": "D_exp"}[method["rollout_on"]]
    divergence = f"the divergence {method['divergence']} with weight {method['eta']:g}"
    return (
        f"{steps} step{'s' if steps > 1 else ''} of {train['prompts_per_step']} prompts of {prompts} with "
        f"{train['rollouts_per_prompt']} rollouts each, learning rate {train['lr']:g}, with "
        f"{divergence if method['divergence'] else 'no divergence'}. D_pef holds the training prompts that the base "
        "model solves reliably, D_exp the others."
    )


def _datasets(run: Run) -> str:
    """The datasets of the run, with their sizes."""
    columns = run.datasets.select("dataset", "rows", "prompts", "kept").iter_rows()
    rows = [(name, run.tasks[name], *map(str, counts)) for name, *counts in columns]
    return markdown_table(Table("", "", ("Dataset", "Task", "Rows", "Prompts", "With a gold answer"), rows))
