"""A page for each evaluation set with its questions, and the responses and verdicts of each policy."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dphrl.config.blocks.evaluation import SamplesConfig
from dphrl.report.render import render
from dphrl.text import visible

_KEY = ("prompt_id", "sample_index")
_MEGABYTE = 10**6


def sample_page(
    run: str,
    dataset: str,
    prompts: str,
    gold: str,
    rollouts: Mapping[str, Sequence[str]],
    verdicts: Mapping[str, Sequence[str]],
    limits: SamplesConfig,
) -> str:
    """The page of one evaluation set. Any text may be hostile: the page holds it as JSON and shows it as text.

    Args:
        prompts, gold: files of the tables "prompts" and "gold"; questions without a kept gold are left out.
        rollouts, verdicts: their shards by the label of the policy; the first policy is the base.
        limits: how much text the page holds.
    """
    last, most = _last_sample([path for shards in rollouts.values() for path in shards], limits)
    answers = [_answers(rollouts[policy], verdicts[policy], last, limits) for policy in rollouts]
    kept = pl.scan_parquet(gold).filter("kept").select("prompt_id", "ground_truth")
    rows = pl.scan_parquet(prompts).select("prompt_id", "messages").join(kept, on="prompt_id", maintain_order="left")
    questions = []
    for key, messages, truth in rows.collect().iter_rows():
        fields = json.loads(truth)
        answer = next((fields[name] for name in ("gold_sql", "answer") if name in fields), fields)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        questions.append(
            {
                "id": key,
                "messages": [[message["role"], _shown(message["content"], limits)] for message in json.loads(messages)],
                "gold": _shown(text, limits),
                "answers": [of_policy[key] for of_policy in answers],
            }
        )
    return render(
        "samples.html.j2",
        title=f"{dataset}: questions and responses",
        lead=f"Run {run}: {len(questions):,} questions, {len(rollouts)} policies.",
        data={"policies": list(rollouts), "questions": questions},
        left_out=most - last,
        samples=last + 1,
        characters=limits.characters,
    )


def _last_sample(rollouts: Sequence[str], limits: SamplesConfig) -> tuple[int, int]:
    """The largest index of a sample up to which the text of all policies fits on the page, and the largest of all."""
    length = pl.col("text").str.len_bytes().clip(upper_bound=limits.characters).sum()
    lengths = pl.scan_parquet(list(rollouts)).group_by("sample_index").agg(length).sort("sample_index").collect()
    indices = lengths["sample_index"].to_list()
    fit = lengths.filter(pl.col("text").cum_sum() <= limits.megabytes * _MEGABYTE).height
    return indices[max(0, fit - 1)], indices[-1]


def _answers(
    rollouts: Sequence[str], verdicts: Sequence[str], last: int, limits: SamplesConfig
) -> dict[str, dict[str, Any]]:
    """By question: right samples, all samples, and the different responses up to index `last` with how often each came.

    The greedy response, with index -1, is no sample.
    """
    judged = pl.scan_parquet(list(verdicts)).select(*_KEY, "verdict", "correct", "detail")
    sampled = pl.col("sample_index") >= 0
    counts = judged.filter(sampled).group_by("prompt_id").agg(pl.col("correct").sum(), pl.len()).collect()
    answers: dict[str, dict[str, Any]] = {
        key: {"right": right, "samples": samples, "responses": []} for key, right, samples in counts.iter_rows()
    }
    texts = pl.scan_parquet(list(rollouts)).select(*_KEY, "text").filter(pl.col("sample_index") <= last)
    alike = ["prompt_id", "greedy", "verdict", "detail", "text"]
    responses = texts.join(judged, on=_KEY).with_columns(greedy=~sampled).group_by(alike)
    places = responses.agg(times=pl.len(), first=pl.col("sample_index").min()).sort("prompt_id", "first")
    for key, greedy, verdict, reason, text, times, _ in places.collect().iter_rows():
        response = {"verdict": verdict, "reason": _shown(reason or "", limits), "text": _shown(text, limits)}
        answers[key]["responses"].append({"greedy": greedy, "times": times, **response})
    return answers


def _shown(text: str, limits: SamplesConfig) -> str:
    return visible(cut(text, limits.characters))


def cut(text: str, characters: int) -> str:
    """A text with line feeds only, cut in the middle where it has more characters."""
    left_out = len(text) - characters
    if left_out > 0:
        half = characters // 2
        text = f"{text[:half]}\n[{left_out:,} characters left out]\n{text[left_out + half :]}"
    return text.replace("\r\n", "\n")
