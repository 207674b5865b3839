"""A few prompts with the responses of each policy and their verdicts, for the reader to judge."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from dphrl.config.blocks.report import SamplesConfig
from dphrl.report.names import label

ALWAYS, SOMETIMES, NEVER = ("always", "sometimes", "never")
# Control characters, which a browser drops or replaces, by their visible symbols.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}


@dataclass(frozen=True)
class Answers:
    """The files with the responses of one policy to a dataset: shards of rollouts and of verdicts."""

    rollouts: list[str]
    verdicts: list[str]


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
        return ALWAYS if self.c == self.n else SOMETIMES if self.c else NEVER


def answers(
    policies: Mapping[str, str], dataset: str, rollouts: Iterable[str], verdicts: Iterable[str]
) -> dict[str, Answers]:
    """The answers of policies to a dataset, by the label of the method.

    Args:
        policies: by method, the folder of the policy in the run.
        dataset: its name.
        rollouts, verdicts: shards of these and of other policies and datasets, `.../{policy}/{dataset}.{plan}/{shard}`.
    """
    kinds = list(rollouts), list(verdicts)
    return {
        label(method): Answers(*([one for one in paths if f"/{policy}/{dataset}." in one] for paths in kinds))
        for method, policy in policies.items()
    }


def pick_samples(
    dataset: str, prompts: str, gold: str, policies: Mapping[str, Answers], limits: SamplesConfig
) -> list[Sample]:
    """Prompts of one dataset in equal parts among those that the base solves always, sometimes and never.

    Within a part, prompts are in the order of a hash of their ids, so nobody chooses them and the same run shows the
    same ones. Responses are the greedy one, if it was drawn, then the first samples. Long texts are cut in the middle.

    Args:
        dataset: its name.
        prompts, gold: files of the tables "prompts" and "gold".
        policies: their answers by label; the first is the base.
        limits: how many prompts and responses, and how long a text may be.

    Returns:
        At most `limits.prompts` samples, always before sometimes before never solved.

    Raises:
        ValueError: a chosen prompt is not in `prompts` or `gold`.
    """
    if not limits.prompts:
        return []
    counts = _solved(next(iter(policies.values())).verdicts)
    chosen = _chosen(counts, limits.prompts)
    texts_and_golds = _table(prompts, ["prompt_id", "messages"], chosen).join(
        _table(gold, ["prompt_id", "ground_truth"], chosen), on="prompt_id"
    )
    texts = {key: (messages, truth) for key, messages, truth in texts_and_golds.iter_rows()}
    absent = [key for key in chosen if key not in texts]
    if absent:
        raise ValueError(
            f"{prompts}, {gold}: prompt {absent[0]!r} of the verdicts is not in both; delete them and run snakemake"
        )
    responses = {policy: _responses(files, chosen, limits) for policy, files in policies.items()}
    return [
        Sample(
            dataset,
            key,
            tuple((one["role"], _shown(one["content"], limits)) for one in json.loads(texts[key][0])),
            _shown(_gold(texts[key][1]), limits),
            *counts[key],
            {policy: found.get(key, []) for policy, found in responses.items()},
        )
        for key in chosen
    ]


def _solved(verdicts: list[str]) -> dict[str, tuple[int, int]]:
    """The numbers of correct and of all samples of each prompt."""
    drawn = pl.scan_parquet(verdicts).filter(pl.col("sample_index") >= 0)
    counts = drawn.group_by("prompt_id").agg(pl.col("correct").sum(), pl.len()).collect()
    return {key: (c, n) for key, c, n in counts.iter_rows()}


def _chosen(counts: Mapping[str, tuple[int, int]], number: int) -> list[str]:
    """Ids, taken in turn from the three parts until there are enough; returned part after part."""
    parts: list[list[str]] = [[], [], []]
    for key in sorted(counts, key=lambda key: hashlib.sha256(key.encode()).digest()):
        c, n = counts[key]
        parts[0 if c == n else 1 if c else 2].append(key)
    taken = [0, 0, 0]
    for _ in range(min(number, len(counts))):
        # The first of the parts with the fewest ids taken, among those that have more.
        least = min((place for place in range(3) if taken[place] < len(parts[place])), key=taken.__getitem__)
        taken[least] += 1
    return [key for part, size in zip(parts, taken, strict=True) for key in part[:size]]


def _responses(files: Answers, chosen: Sequence[str], limits: SamplesConfig) -> dict[str, list[Response]]:
    key = ["prompt_id", "sample_index"]
    texts = _table(files.rollouts, [*key, "text"], chosen)
    judged = _table(files.verdicts, [*key, "verdict", "detail"], chosen)
    found: dict[str, list[Response]] = {}
    for prompt, index, text, verdict, detail in texts.join(judged, on=key).sort(key).iter_rows():
        shown = found.setdefault(prompt, [])
        if len(shown) < limits.responses:
            shown.append(Response(index, _shown(text, limits), verdict, _shown(detail or "", limits)))
    return found


def _table(files: str | list[str], columns: Sequence[str], chosen: Sequence[str]) -> pl.DataFrame:
    """`columns` of the rows of the chosen prompts; nothing else is read into memory."""
    return pl.scan_parquet(files).filter(pl.col("prompt_id").is_in(chosen)).select(columns).collect()


def _gold(truth: str) -> str:
    given = json.loads(truth)
    answer = next((given[name] for name in ("gold_sql", "answer") if name in given), given)
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _shown(text: str, limits: SamplesConfig) -> str:
    left_out = len(text) - limits.characters
    if left_out > 0:
        half = limits.characters // 2
        text = f"{text[:half]}\n[{left_out:,} characters left out]\n{text[left_out + half :]}"
    return text.replace("\r\n", "\n").translate(_PICTURES)
