"""Checks across tables: the same prompts, samples and verdicts everywhere, none lost and none repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from dphrl.artifacts.tables import ROW_GROUP, by_prompts
from dphrl.audit.artifacts import RERUN, Artifact, Drawn, FindRows, Run, check_rows, delete_and_rerun
from dphrl.layout.kinds import KINDS, fill, kind_of

_GREEDY = -1
_PROMPT = ["prompt_id"]
KEY = [*_PROMPT, "sample_index"]

Decode = Callable[[Sequence[Sequence[int]]], list[str]]


def check_datasets(run: Run) -> None:
    """The gold answers of a dataset are for its prompts, all of them and no others."""
    for path, artifact in run.artifacts.items():
        kind_and_fields = kind_of(path)
        if kind_and_fields is not None and kind_and_fields[0].name == "prompts":
            gold = fill(KINDS["gold"].path, kind_and_fields[1])
            artifact.check(run.get(gold) is not None, f"{path} has no {gold}", RERUN)
            artifact.attempt(_check_same_prompts, run, artifact, path, gold)


def check_rollouts(run: Run, decode: Decode | None) -> None:
    """The rollouts hold the samples of their plan, each with a verdict and with a text that agrees with its tokens.

    Args:
        decode: token ids to texts without special tokens, by the base policy's tokenizer; None: texts are not checked.
    """
    for samples, shards in run.samples("rollouts").items():
        first = shards[min(shards)]
        first.attempt(_check_shards, run, samples, shards)
        for number, artifact in shards.items():
            kind = "verdicts" if samples.draw is None else "drawn_verdicts"
            path = fill(KINDS[kind].path, {**samples._asdict(), "shard": number})
            drawn, judged, verdicts = run.scan(artifact.path), run.scan(path), run.get(path)
            if drawn is None:
                continue
            artifact.check(verdicts is not None, f"{artifact.path} has no {path}", RERUN)
            artifact.attempt(_check_samples, artifact, drawn, decode)
            if verdicts is not None and judged is not None:
                verdicts.attempt(_check_verdicts, verdicts, artifact.path, drawn, judged)


def check_partition(run: Run, draw: str) -> None:
    """The partition holds each training prompt once, and D_pef only prompts that refinement confirmed."""
    datasets = run.train_datasets
    before, last = (fill(KINDS[name].path, {"draw": draw}) for name in ("candidates", "partition"))
    for path in (before, last):
        artifact = run.get(path)
        if artifact is None or not artifact.sound:
            continue
        if artifact.check(
            len(datasets) == 1,
            f"{path}: there are samples of stage 1 of {len(datasets)} datasets ({', '.join(datasets)}), expected those"
            " of the training set alone",
            "Delete what an earlier config left behind, or run snakemake again.",
        ):
            prompts = fill(KINDS["prompts"].path, {"dataset": datasets[0]})
            artifact.attempt(_check_same_prompts, run, artifact, prompts, path)
    final, partition = run.get(last), run.scan(last)
    if final is not None and partition is not None:
        final.attempt(_check_subsets, final, partition, run.scan(before))


def _check_subsets(final: Artifact, partition: pl.LazyFrame, candidates: pl.LazyFrame | None) -> None:
    pef = pl.col("subset") == "pef"
    odd, shown = pef != pl.col("reference_sample").is_not_null(), ("prompt_id", "subset", "reference_sample")
    problem = f"{final.path}: D_pef prompts without a reference sample, or others with one"
    check_rows(final, by_prompts(partition), {problem: lambda rows: rows.filter(odd).select(shown)})
    if candidates is not None:
        problem = f"{final.path}: D_pef prompts that were no candidate"
        parts = by_prompts(*(table.filter(pef).select(_PROMPT) for table in (partition, candidates)))
        check_rows(final, parts, {problem: lambda rows, before: lost(rows, before, _PROMPT)})


def lost(rows: pl.DataFrame, others: pl.DataFrame, key: Sequence[str] = KEY) -> pl.DataFrame:
    """The keys of rows that the others lack."""
    return rows.select(key).join(others, on=key, how="anti").sort(key)


def same_keys(lacking: str, extra: str, key: Sequence[str] = KEY) -> dict[str, FindRows]:
    """Checks that two tables have the same keys; missing and additional keys have separate names."""
    return {
        lacking: lambda first, second: lost(first, second, key),
        extra: lambda first, second: lost(second, first, key),
    }


def _check_same_prompts(run: Run, artifact: Artifact, prompts_path: str, gold_path: str) -> None:
    left, right = run.scan(prompts_path), run.scan(gold_path)
    if left is not None and right is not None:
        lacking, extra = (
            f"prompts of {a} that {b} does not have" for a, b in ((prompts_path, gold_path), (gold_path, prompts_path))
        )
        parts = by_prompts(left.select(_PROMPT), right.select(_PROMPT))
        check_rows(artifact, parts, same_keys(lacking, extra, _PROMPT), delete_and_rerun(gold_path))


def _check_shards(run: Run, samples: Drawn, shards: Mapping[int, Artifact]) -> None:
    """The shards together hold every sample of every prompt of the plan, and no other."""
    numbers, first = sorted(shards), shards[min(shards)]
    folder = first.path.rpartition("/")[0]
    remedy = f"Delete {folder} (it may hold a shard that an earlier config left behind) and run snakemake again."
    gaps = sorted(set(range(len(numbers))) - set(numbers))
    if not first.check(not gaps, f"{folder}: no shard {', '.join(map(str, gaps))}", RERUN):
        return
    drawn = run.scan(shards[number].path for number in numbers)
    if drawn is None:
        return
    keys = drawn.select(KEY)
    check_rows(first, by_prompts(keys), {f"{folder}: samples in more than one shard": _repeated}, remedy)
    drawn_by, *others = [artifact.footer.get("config", {}).get("plan") for artifact in shards.values()]
    planned = first.check(
        _is_plan(drawn_by) and all(other == drawn_by for other in others),
        f"{folder}: its shards' footers name no plan, or not the same one",
        remedy,
    )
    refined = samples.plan == "refine"
    prompts = run.scan(fill(KINDS["candidates" if refined else "prompts"].path, samples._asdict()))
    if prompts is None or not planned:
        return
    prompts = (prompts.filter(subset="pef") if refined else prompts).select(_PROMPT)
    asked = drawn_by["n"] + bool(drawn_by.get("greedy"))
    present = sum(artifact.rows or 0 for artifact in shards.values())
    total = asked * prompts.select(pl.len()).collect(engine="streaming").item()
    expected = f"(expected {asked} per prompt, {total} in all)"
    # A plan can name any number of samples; they are compared one by one only if they can be mostly there.
    if not first.check(total <= 2 * present + ROW_GROUP, f"{folder}: {present} samples {expected}", remedy):
        return
    indices = [*([_GREEDY] if drawn_by.get("greedy") else []), *range(drawn_by["n"])]
    each = pl.DataFrame({"sample_index": pl.Series(indices, dtype=pl.Int32)})
    missing, extra = f"missing samples {expected}", f"samples that the plan does not ask for {expected}"
    parts = ((asked_of.join(each, how="cross"), drawn_keys) for drawn_keys, asked_of in by_prompts(keys, prompts))
    check_rows(first, parts, same_keys(f"{folder}: {missing}", f"{folder}: {extra}"), remedy)


def _is_plan(value: Any) -> bool:
    """Whether the plan of a footer says how many samples were drawn."""
    return isinstance(value, dict) and type(value.get("n")) is int and value["n"] >= 0


def _repeated(keys: pl.DataFrame) -> pl.DataFrame:
    return keys.filter(keys.is_duplicated()).unique().sort(KEY)


def _check_samples(artifact: Artifact, drawn: pl.LazyFrame, decode: Decode | None) -> None:
    engine = artifact.footer.get("config", {}).get("engine")
    if isinstance(engine, dict) and engine.get("name") == "replay":
        return  # recorded texts: they were not drawn as tokens, and have no log-probs
    path, tokens, logprobs = artifact.path, pl.col("token_ids").list.len(), pl.col("sampler_logprobs").list.len()
    counts = {"tokens": tokens, "logprobs": logprobs}
    # The schema keeps them <= 0 and numbers, but lets -inf through.
    infinite = ~pl.col("sampler_logprobs").list.eval(pl.element().is_finite()).list.all()
    unequal, without_text = "other than one log-prob per token", "whose tokens are not the text that was scored"
    checks: dict[str, FindRows] = {
        f"{path}: samples with {unequal}": lambda rows: rows.filter(tokens != logprobs).select(*KEY, **counts),
        f"{path}: samples with infinite log-probs": lambda rows: rows.filter(infinite).select(KEY),
    }
    if decode is not None:
        stops, ends = (tuple((engine or {}).get(name) or ()) for name in ("stop", "stop_token_ids"))
        checks[f"{path}: samples {without_text}"] = lambda rows: _undecoded(rows, decode, stops, ends)
    check_rows(artifact, by_prompts(drawn), checks)


def _undecoded(drawn: pl.DataFrame, decode: Decode, stops: Sequence[str], ends: Sequence[int]) -> pl.DataFrame:
    """Samples whose text differs from their decoded tokens, with the beginning of both.

    The text is without the stop text or the end token that ended it (`engine.stop`, `engine.stop_token_ids`).
    """
    # A tokenizer decodes no responses (an empty D_pef) as one empty text.
    tokens = [ids[:-1] if ids and ids[-1] in ends else ids for ids in drawn["token_ids"].to_list()]
    decoded = decode(tokens) if tokens else []
    for stop in stops:
        decoded = [text.partition(stop)[0] for text in decoded]
    texts = pl.Series("decoded", decoded, dtype=pl.String)
    # An engine leaves out the bytes of a character that the last token cuts; a tokenizer shows them as U+FFFD.
    bare = pl.col("text", "decoded").str.strip_chars_end("\ufffd")
    differs = drawn.with_columns(texts).with_columns(bare).filter(pl.col("text") != pl.col("decoded"))
    return differs.select(*KEY, *(pl.format("'{}'", pl.col(name).str.slice(0, 60)) for name in ("text", "decoded")))


def _check_verdicts(verdicts: Artifact, rollouts: str, drawn: pl.LazyFrame, judged: pl.LazyFrame) -> None:
    path, disagree = verdicts.path, pl.col("correct") != (pl.col("verdict") == "correct")
    lacking, extra = f"samples of {rollouts} without a verdict", f"verdicts on samples that {rollouts} does not have"
    judged = judged.select(*KEY, "verdict", "correct")
    checks = same_keys(f"{path}: {lacking}", f"{path}: {extra}")
    checks[f"{path}: rows whose verdict and correct disagree"] = lambda _, rows: rows.filter(disagree)
    check_rows(verdicts, by_prompts(drawn.select(KEY), judged), checks)
