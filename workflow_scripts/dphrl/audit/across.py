"""Checks across tables: the same prompts, samples and verdicts everywhere, nothing lost and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from dphrl.audit.walk import Artifact, Group, Run, again, overlapping

_GREEDY = -1
_KEY = ["prompt_id", "sample_index"]
_FINAL, _CANDIDATES = "partition/final.parquet", "partition/candidates.parquet"

Decode = Callable[[Sequence[Sequence[int]]], list[str]]


def check_datasets(run: Run) -> None:
    """Each dataset has gold for its prompts and for nothing else."""
    for path, artifact in run.artifacts.items():
        folder, _, name = path.partition("/")
        if folder != "prompts" or name.endswith(".rejected.parquet"):
            continue
        gold = f"gold/{name}"
        prompts, golds = run.frame(path), run.frame(gold)
        artifact.check(run.get(gold) is not None, f"{path} has no {gold}. Run snakemake again.")
        if prompts is not None and golds is not None:
            _same_prompts(artifact, prompts, path, golds, gold, again(gold))


def check_rollouts(run: Run, decode: Decode | None) -> None:
    """Each plan drew what it should have drawn, and the text that was scored is that of the tokens.

    Args:
        decode: token ids to texts without special tokens, by the base policy's tokenizer; None: there is none to ask.
    """
    for group in run.groups("rollouts"):
        _check_shards(run, group)
        for artifact in group.shards.values():
            frame = run.frame(artifact.path)
            if frame is not None:
                _check_samples(artifact, frame, decode)
                _check_verdicts(run, artifact, frame)


def check_partition(run: Run) -> None:
    """The partition holds each training prompt once, and D_pef only prompts that refinement confirmed."""
    datasets = run.train_datasets()
    for path in (_CANDIDATES, _FINAL):
        artifact, partition = run.get(path), run.frame(path)
        if artifact is None or partition is None:
            continue
        if not artifact.check(
            len(datasets) == 1,
            f"{path}: there are pre-samples of {len(datasets)} datasets ({', '.join(datasets)}), expected those of the"
            " training set alone. Delete what an earlier config left behind, or run snakemake again.",
        ):
            continue
        prompts = f"prompts/{datasets[0]}.parquet"
        expected = run.frame(prompts)
        if expected is not None:
            _same_prompts(artifact, expected, prompts, partition, path, again(path))
    final, partition, candidates = run.get(_FINAL), run.frame(_FINAL), run.frame(_CANDIDATES)
    if final is None or partition is None:
        return
    pef = pl.col("subset") == "pef"
    odd = partition.filter(pef != pl.col("reference_sample").is_not_null())
    what = f"{_FINAL}: D_pef prompts without a reference sample, or others with one"
    final.check_none(odd.select("prompt_id", "subset", "reference_sample"), what, again(_FINAL))
    if candidates is not None:
        chosen = partition.filter(pef).join(candidates.filter(pef), on="prompt_id", how="anti")
        final.check_none(chosen.select("prompt_id"), f"{_FINAL}: D_pef prompts that were no candidate", again(_FINAL))


def _same_prompts(
    artifact: Artifact, left: pl.DataFrame, left_path: str, right: pl.DataFrame, right_path: str, remedy: str
) -> None:
    for a, a_path, b, b_path in ((left, left_path, right, right_path), (right, right_path, left, left_path)):
        lost = a.select("prompt_id").join(b, on="prompt_id", how="anti").sort("prompt_id")
        artifact.check_none(lost, f"prompts of {a_path} that {b_path} does not have", remedy)


def _check_shards(run: Run, group: Group) -> None:
    """The shards together hold every sample of every prompt of the plan, and no other."""
    numbers, first = sorted(group.shards), group.shards[min(group.shards)]
    folder = first.path.rpartition("/")[0]
    remedy = f"Delete {folder} (it may hold a shard that an earlier config left behind) and run snakemake again."
    lost = sorted(set(range(max(numbers))) - set(numbers))
    if not first.check(not lost, f"{folder}: no shard {', '.join(map(str, lost))}. Run snakemake again."):
        return
    frame = run.frame(group.shards[number].path for number in numbers)
    if frame is None:
        return
    first.check_none(overlapping(frame), f"{folder}: samples in more than one shard", remedy)
    plans = [artifact.footer.get("config", {}).get("plan") for artifact in group.shards.values()]
    plan = plans[0]
    if not first.check(
        isinstance(plan, dict) and "n" in plan and all(other == plan for other in plans),
        f"{folder}: its shards' footers name no plan, or not the same one. {remedy}",
    ):
        return
    prompts = run.frame(f"prompts/{group.dataset}.parquet")
    if prompts is not None and group.plan == "refine":
        candidates = run.frame(_CANDIDATES)
        chosen = None if candidates is None else candidates.filter(pl.col("subset") == "pef")
        prompts = None if chosen is None else prompts.join(chosen, on="prompt_id", how="semi")
    if prompts is None:
        return
    indices = [*([_GREEDY] if plan.get("greedy") else []), *range(plan["n"])]
    each = pl.DataFrame({"sample_index": pl.Series(indices, dtype=pl.Int32)})
    expected = prompts.select("prompt_id").join(each, how="cross")
    missing = expected.join(frame, on=_KEY, how="anti").sort(_KEY)
    orphans = frame.select(_KEY).join(expected, on=_KEY, how="anti").sort(_KEY)
    counts = f"{len(indices)} per prompt, {expected.height} in all"
    first.check_none(missing, f"{folder}: missing samples (expected {counts})", remedy)
    first.check_none(orphans, f"{folder}: samples that the plan does not ask for (expected {counts})", remedy)


def _check_samples(artifact: Artifact, frame: pl.DataFrame, decode: Decode | None) -> None:
    if artifact.footer.get("config", {}).get("engine") == "replay":
        return  # recorded texts: they were not drawn as tokens, and have no log-probs
    path, remedy = artifact.path, again(artifact.path)
    tokens, logprobs = pl.col("token_ids").list.len(), pl.col("sampler_logprobs").list.len()
    odd = frame.filter(tokens != logprobs).select(*_KEY, tokens=tokens, logprobs=logprobs)
    artifact.check_none(odd, f"{path}: samples with other than one log-prob per token", remedy)
    # The schema keeps them <= 0 and numbers, but lets -inf through.
    finite = pl.col("sampler_logprobs").list.eval(pl.element().is_finite()).list.all()
    artifact.check_none(frame.filter(~finite).select(_KEY), f"{path}: samples with infinite log-probs", remedy)
    if decode is None or not frame.height:
        return
    texts = pl.Series("decoded", decode(frame["token_ids"].to_list()), dtype=pl.String)
    # An engine leaves out the bytes of a character that the last token cuts; a tokenizer shows them as U+FFFD.
    bare = pl.col("text", "decoded").str.strip_chars_end("\ufffd")
    differs = frame.with_columns(texts).with_columns(bare).filter(pl.col("text") != pl.col("decoded"))
    shown = differs.select(*_KEY, *(pl.format("'{}'", pl.col(name).str.slice(0, 60)) for name in ("text", "decoded")))
    artifact.check_none(shown, f"{path}: samples whose tokens are not the text that was scored", remedy)


def _check_verdicts(run: Run, rollouts: Artifact, frame: pl.DataFrame) -> None:
    path = rollouts.path.replace("rollouts/", "verdicts/", 1)
    artifact, verdicts = run.get(path), run.frame(path)
    rollouts.check(artifact is not None, f"{rollouts.path} has no {path}. Run snakemake again.")
    if artifact is None or verdicts is None:
        return
    unscored = frame.select(_KEY).join(verdicts, on=_KEY, how="anti")
    artifact.check_none(unscored, f"{path}: samples of {rollouts.path} without a verdict", again(path))
    orphans = verdicts.select(_KEY).join(frame, on=_KEY, how="anti")
    artifact.check_none(orphans, f"{path}: verdicts on samples that {rollouts.path} does not have", again(path))
    odd = verdicts.filter(pl.col("correct") != (pl.col("verdict") == "correct")).select(*_KEY, "verdict", "correct")
    artifact.check_none(odd, f"{path}: rows whose verdict and correct disagree", again(path))
