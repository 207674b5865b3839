"""A few prompts with the responses of each policy and their verdicts, for the reader to judge."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dphrl.config.blocks.evaluation import SamplesConfig
from dphrl.evaluation.methods import label
from dphrl.text import visible


@dataclass(frozen=True)
class Response:
    """One response; `index` is -1 for the greedy one, `reason` is empty where the scorer gave none."""

    index: int
    text: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Sample:
    """One prompt: its messages as (role, text), its gold answer, how many samples of the base are correct (`c` of
    `n`), and the responses by policy."""

    dataset: str
    prompt_id: str
    messages: tuple[tuple[str, str], ...]
    gold: str
    c: int
    n: int
    responses: Mapping[str, Sequence[Response]]

    @property
    def solved(self) -> str:
        """Whether the base solves it always, sometimes or never."""
        return "always" if self.c == self.n else "sometimes" if self.c else "never"


def samples_of_run(
    datasets: Sequence[str], policies: Mapping[str, str], files: Mapping[str, Sequence[str]], limits: SamplesConfig
) -> list[Sample]:
    """`pick_samples` of each dataset.

    Args:
        policies: by method, the folder of the policy in the run.
        files: "prompts" and "gold" of each dataset, and all shards of "rollouts" and "verdicts".
    """
    samples = list[Sample]()
    for name, prompts, gold in zip(datasets, files["prompts"], files["gold"], strict=True):
        rollouts, verdicts = (shards_of(name, policies, files[kind]) for kind in ("rollouts", "verdicts"))
        samples += pick_samples(name, prompts, gold, rollouts, verdicts, limits)
    return samples


def shards_of(dataset: str, policies: Mapping[str, str], paths: Sequence[str]) -> dict[str, list[str]]:
    """The shards of a dataset, by the label of the method.

    Args:
        policies: by method, the folder of the policy in the run.
        paths: shards of these and of other policies and datasets, `.../{policy}/{dataset}.{plan}/{shard}`.
    """
    folders = {label(method): f"{policy}/{dataset}.*/*" for method, policy in policies.items()}
    return {name: [path for path in paths if Path(path).match(folder)] for name, folder in folders.items()}


def pick_samples(
    dataset: str,
    prompts: str,
    gold: str,
    rollouts: Mapping[str, list[str]],
    verdicts: Mapping[str, list[str]],
    limits: SamplesConfig,
) -> list[Sample]:
    """Prompts of one dataset in equal parts among those that the base solves always, sometimes and never.

    Within a part, prompts are in the order of a hash of their ids, so nobody chooses them and the same run shows the
    same ones. Responses are the greedy one, if it was drawn, then the first samples. Long texts are cut in the middle.

    Args:
        prompts, gold: files of the tables "prompts" and "gold".
        rollouts, verdicts: their shards by the label of the policy; the first is the base.
        limits: how many prompts and responses, and how long a text may be.

    Returns:
        At most `limits.prompts` samples, always before sometimes before never solved.

    Raises:
        ValueError: a chosen prompt is not in `prompts` or `gold`.
    """
    if not limits.prompts:
        return []
    chosen = _chosen(next(iter(verdicts.values())), gold, limits.prompts)
    keys = chosen["prompt_id"].to_list()
    for file, column in ((prompts, "messages"), (gold, "ground_truth")):
        texts = _table(file, ["prompt_id", column], keys)
        chosen = chosen.join(texts, on="prompt_id", how="left", maintain_order="left")
    absent = chosen.filter(pl.any_horizontal(pl.all().is_null()))["prompt_id"].to_list()
    if absent:
        raise ValueError(
            f"{prompts}, {gold}: prompt {absent[0]!r} of the verdicts is not in both; delete them and run snakemake"
        )
    responses = {policy: _responses(shards, verdicts[policy], keys, limits) for policy, shards in rollouts.items()}
    return [
        Sample(
            dataset,
            key,
            tuple((message["role"], _shown(message["content"], limits)) for message in json.loads(messages)),
            _shown(_gold(truth), limits),
            c,
            n,
            {policy: by_prompt.get(key, []) for policy, by_prompt in responses.items()},
        )
        for key, c, n, messages, truth in chosen.iter_rows()
    ]


def _chosen(verdicts: list[str], gold: str, number: int) -> pl.DataFrame:
    """prompt_id, c and n (correct and all samples) of prompts taken in turn from the three parts; sorted by part.

    Prompts whose gold was excluded are not evaluated, and not shown.
    """
    excluded = pl.scan_parquet(gold).filter(~pl.col("kept")).select("prompt_id")
    drawn = pl.scan_parquet(verdicts).filter(pl.col("sample_index") >= 0).join(excluded, on="prompt_id", how="anti")
    counts = drawn.group_by("prompt_id").agg(c=pl.col("correct").sum(), n=pl.len()).collect()
    hashes = pl.Series([hashlib.sha256(key.encode()).digest() for key in counts["prompt_id"]], dtype=pl.Binary)
    part = pl.when(pl.col("c") == pl.col("n")).then(0).when(pl.col("c") > 0).then(1).otherwise(2)
    parts = counts.with_columns(part=part, hash=hashes).sort("hash")
    turns = parts.with_columns(turn=pl.int_range(pl.len()).over("part")).sort("turn", "part")
    return turns.head(number).sort("part", "turn").select("prompt_id", "c", "n")


def _responses(
    rollouts: list[str], verdicts: list[str], chosen: Sequence[str], limits: SamplesConfig
) -> dict[str, list[Response]]:
    key = ["prompt_id", "sample_index"]
    texts = _table(rollouts, [*key, "text"], chosen)
    judged = _table(verdicts, [*key, "verdict", "detail"], chosen)
    by_prompt: dict[str, list[Response]] = {}
    for prompt, index, text, verdict, detail in texts.join(judged, on=key).sort(key).iter_rows():
        shown = by_prompt.setdefault(prompt, [])
        if len(shown) < limits.responses:
            shown.append(Response(index, _shown(text, limits), verdict, _shown(detail or "", limits)))
    return by_prompt


def _table(files: str | list[str], columns: Sequence[str], chosen: Sequence[str]) -> pl.DataFrame:
    """`columns` of the rows of the chosen prompts; nothing else is read into memory."""
    return pl.scan_parquet(files).filter(pl.col("prompt_id").is_in(chosen)).select(columns).collect()


def _gold(truth: str) -> str:
    fields = json.loads(truth)
    answer = next((fields[name] for name in ("gold_sql", "answer") if name in fields), fields)
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _shown(text: str, limits: SamplesConfig) -> str:
    left_out = len(text) - limits.characters
    if left_out > 0:
        half = limits.characters // 2
        text = f"{text[:half]}\n[{left_out:,} characters left out]\n{text[left_out + half :]}"
    return visible(text.replace("\r\n", "\n"))
