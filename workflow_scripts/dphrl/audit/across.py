"""Checks across tables: the same prompts, samples and verdicts everywhere, nothing lost and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from dphrl.artifacts.tables import by_prompts
from dphrl.audit.artifacts import Artifact, Group, RowCheck, Run, check_rows, delete_and_rerun

_GREEDY = -1
KEY = ["prompt_id", "sample_index"]
_FINAL, _CANDIDATES = "partition/final.parquet", "partition/candidates.parquet"

Decode = Callable[[Sequence[Sequence[int]]], list[str]]


def check_datasets(run: Run) -> None:
    """Each dataset has gold for its prompts and for nothing else."""
    for path, artifact in run.artifacts.items():
        folder, _, name = path.partition("/")
        if folder != "prompts" or name.endswith(".rejected.parquet"):
            continue
        gold = f"gold/{name}"
        artifact.check(run.get(gold) is not None, f"{path} has no {gold}. Run snakemake again.")
        _check_same_prompts(run, artifact, path, gold)


def check_rollouts(run: Run, decode: Decode | None) -> None:
    """Each plan drew what it should have drawn, and the text that was scored is that of the tokens.

    Args:
        decode: token ids to texts without special tokens, by the base policy's tokenizer; None: there is none to ask.
    """
    for group in run.groups("rollouts"):
        _check_shards(run, group)
        for artifact in group.shards.values():
            path = artifact.path.replace("rollouts/", "verdicts/", 1)
            drawn, judged, verdicts = run.scan(artifact.path), run.scan(path), run.get(path)
            if drawn is not None:
                artifact.check(verdicts is not None, f"{artifact.path} has no {path}. Run snakemake again.")
                checks = _sample_checks(artifact, decode)
                if verdicts is None or judged is None:
                    check_rows(by_prompts(drawn), checks)
                else:
                    check_rows(by_prompts(drawn, judged), [*checks, *_verdict_checks(artifact, verdicts)])


def check_partition(run: Run) -> None:
    """The partition holds each training prompt once, and D_pef only prompts that refinement confirmed."""
    datasets = run.train_datasets()
    for path in (_CANDIDATES, _FINAL):
        artifact = run.get(path)
        if artifact is None or not artifact.sound:
            continue
        if artifact.check(
            len(datasets) == 1,
            f"{path}: there are pre-samples of {len(datasets)} datasets ({', '.join(datasets)}), expected those of the"
            " training set alone. Delete what an earlier config left behind, or run snakemake again.",
        ):
            _check_same_prompts(run, artifact, f"prompts/{datasets[0]}.parquet", path)
    final, partition, candidates = run.get(_FINAL), run.scan(_FINAL), run.scan(_CANDIDATES)
    if final is None or partition is None:
        return
    pef = pl.col("subset") == "pef"
    odd = RowCheck(
        final,
        f"{_FINAL}: D_pef prompts without a reference sample, or others with one",
        delete_and_rerun(_FINAL),
        lambda divided, *_: divided.filter(pef != pl.col("reference_sample").is_not_null()).select(
            "prompt_id", "subset", "reference_sample"
        ),
    )
    chosen = RowCheck(
        final,
        f"{_FINAL}: D_pef prompts that were no candidate",
        delete_and_rerun(_FINAL),
        lambda divided, before: lost(divided.filter(pef), before.filter(pef), ["prompt_id"]),
    )
    if candidates is None:
        check_rows(by_prompts(partition), [odd])
    else:
        check_rows(by_prompts(partition, candidates), [odd, chosen])


def lost(rows: pl.DataFrame, others: pl.DataFrame, key: Sequence[str] = KEY) -> pl.DataFrame:
    """The keys of rows that the others lack."""
    return rows.select(key).join(others, on=key, how="anti").sort(key)


def _check_same_prompts(run: Run, artifact: Artifact, one: str, other: str) -> None:
    left, right = run.scan(one), run.scan(other)
    if left is None or right is None:
        return
    what, remedy, key = "prompts of {} that {} does not have", delete_and_rerun(other), ["prompt_id"]
    check_rows(
        by_prompts(left.select(key), right.select(key)),
        [
            RowCheck(artifact, what.format(one, other), remedy, lambda a, b: lost(a, b, key)),
            RowCheck(artifact, what.format(other, one), remedy, lambda a, b: lost(b, a, key)),
        ],
    )


def _check_shards(run: Run, group: Group) -> None:
    """The shards together hold every sample of every prompt of the plan, and no other."""
    numbers, first = sorted(group.shards), group.shards[min(group.shards)]
    folder = first.path.rpartition("/")[0]
    remedy = f"Delete {folder} (it may hold a shard that an earlier config left behind) and run snakemake again."
    gaps = sorted(set(range(max(numbers))) - set(numbers))
    if not first.check(not gaps, f"{folder}: no shard {', '.join(map(str, gaps))}. Run snakemake again."):
        return
    drawn = run.scan(group.shards[number].path for number in numbers)
    if drawn is None:
        return
    keys = drawn.select(KEY)
    shared = RowCheck(first, f"{folder}: samples in more than one shard", remedy, lambda rows, *_: _repeated(rows))
    plans = [artifact.footer.get("config", {}).get("plan") for artifact in group.shards.values()]
    plan = plans[0]
    planned = first.check(
        isinstance(plan, dict) and "n" in plan and all(other == plan for other in plans),
        f"{folder}: its shards' footers name no plan, or not the same one. {remedy}",
    )
    if group.plan == "refine":
        candidates = run.scan(_CANDIDATES)
        prompts = None if candidates is None else candidates.filter(pl.col("subset") == "pef")
    else:
        prompts = run.scan(f"prompts/{group.dataset}.parquet")
    if prompts is None or not planned:
        check_rows(by_prompts(keys), [shared])
        return
    prompts = prompts.select("prompt_id")
    indices = [*([_GREEDY] if plan.get("greedy") else []), *range(plan["n"])]
    each = pl.DataFrame({"sample_index": pl.Series(indices, dtype=pl.Int32)})
    in_all = len(indices) * prompts.select(pl.len()).collect(engine="streaming").item()
    expected = f"(expected {len(indices)} per prompt, {in_all} in all)"
    missing, orphans = f"missing samples {expected}", f"samples that the plan does not ask for {expected}"
    check_rows(
        by_prompts(keys, prompts),
        [
            shared,
            RowCheck(first, f"{folder}: {missing}", remedy, lambda rows, of: lost(of.join(each, how="cross"), rows)),
            RowCheck(first, f"{folder}: {orphans}", remedy, lambda rows, of: lost(rows, of.join(each, how="cross"))),
        ],
    )


def _repeated(keys: pl.DataFrame) -> pl.DataFrame:
    return keys.filter(keys.is_duplicated()).unique().sort(KEY)


def _sample_checks(artifact: Artifact, decode: Decode | None) -> list[RowCheck]:
    if artifact.footer.get("config", {}).get("engine") == "replay":
        return []  # recorded texts: they were not drawn as tokens, and have no log-probs
    path, remedy = artifact.path, delete_and_rerun(artifact.path)
    tokens, logprobs = pl.col("token_ids").list.len(), pl.col("sampler_logprobs").list.len()
    # The schema keeps them <= 0 and numbers, but lets -inf through.
    finite = pl.col("sampler_logprobs").list.eval(pl.element().is_finite()).list.all()
    checks = [
        RowCheck(
            artifact,
            f"{path}: samples with other than one log-prob per token",
            remedy,
            lambda drawn, *_: drawn.filter(tokens != logprobs).select(*KEY, tokens=tokens, logprobs=logprobs),
        ),
        RowCheck(
            artifact,
            f"{path}: samples with infinite log-probs",
            remedy,
            lambda drawn, *_: drawn.filter(~finite).select(KEY),
        ),
    ]
    what = f"{path}: samples whose tokens are not the text that was scored"
    if decode is not None:
        checks.append(RowCheck(artifact, what, remedy, lambda drawn, *_: _undecoded(drawn, decode)))
    return checks


def _undecoded(drawn: pl.DataFrame, decode: Decode) -> pl.DataFrame:
    """The samples whose text is not that of their tokens, with the beginning of both."""
    texts = pl.Series("decoded", decode(drawn["token_ids"].to_list()), dtype=pl.String)
    # An engine leaves out the bytes of a character that the last token cuts; a tokenizer shows them as U+FFFD.
    bare = pl.col("text", "decoded").str.strip_chars_end("\ufffd")
    differs = drawn.with_columns(texts).with_columns(bare).filter(pl.col("text") != pl.col("decoded"))
    return differs.select(*KEY, *(pl.format("'{}'", pl.col(name).str.slice(0, 60)) for name in ("text", "decoded")))


def _verdict_checks(rollouts: Artifact, verdicts: Artifact) -> list[RowCheck]:
    path, remedy = verdicts.path, delete_and_rerun(verdicts.path)
    disagree = pl.col("correct") != (pl.col("verdict") == "correct")
    found: dict[str, Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]] = {
        f"samples of {rollouts.path} without a verdict": lost,
        f"verdicts on samples that {rollouts.path} does not have": lambda drawn, judged: lost(judged, drawn),
        "rows whose verdict and correct disagree": lambda _, judged: judged.filter(disagree).select(
            *KEY, "verdict", "correct"
        ),
    }
    return [RowCheck(verdicts, f"{path}: {what}", remedy, offending) for what, offending in found.items()]
