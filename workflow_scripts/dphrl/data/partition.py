"""The division of the training prompts into D_pef, D_exp and the rest (arXiv 2509.07430, section 4, appendix F)."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dphrl.config.blocks.data import FieldName
from dphrl.config.blocks.training import PartitionConfig
from dphrl.data.fields import Fields, Row, json_text


def candidates(gold: pl.DataFrame, verdicts: pl.DataFrame, n: int, config: PartitionConfig) -> pl.DataFrame:
    """Divide by the pre-samples: at least `pef_min_correct` of `n` correct makes a candidate for D_pef.

    Args:
        gold: one row per prompt; one whose gold answer is not kept is dropped whatever its samples.
        verdicts: of the pre-samples.
        n: samples per prompt.

    Returns:
        One row per prompt of `gold`, nothing lost: prompt_id, n, c, subset, reason, reference_sample (null).

    Raises `ValueError` for a prompt with other than `n` verdicts.
    """
    counts = verdicts.group_by("prompt_id").agg(n=pl.len().cast(pl.Int32), c=pl.col("correct").sum().cast(pl.Int32))
    rows = gold.select("prompt_id", "kept", gold_reason="reason").join(
        counts, on="prompt_id", how="full", coalesce=True
    )
    odd = rows.filter(pl.col("kept").is_null() | (pl.col("n").fill_null(0) != n)).sort("prompt_id")
    if odd.height:
        prompt_id, kept, _, samples, _ = odd.row(0)
        raise ValueError(
            f"{odd.height} prompts have other than {n} pre-samples or no gold, first {prompt_id} with {samples or 0}"
            f" samples and {'no' if kept is None else 'a'} gold row: rerun prompts, sample and score of that dataset"
        )
    rules = [
        ((pl.col("c") == 0) & config.drop_all_wrong, "dropped", "no sample correct"),
        (pl.col("c") >= config.pef_min_correct, "pef", "near-perfect"),
        (pl.lit(True), "exp", "below threshold"),
    ]
    return _divided(rows, rules)


def _divided(rows: pl.DataFrame, rules: Sequence[tuple[pl.Expr, str, str]]) -> pl.DataFrame:
    """The table of a division: the first rule that holds gives subset and reason; a gold that is not kept comes first.

    Args:
        rows: prompt_id, n, c, kept and gold_reason.
        rules: condition, subset, reason.
    """
    of_gold = pl.format("gold: {}", pl.col("gold_reason").fill_null("not kept"))
    exprs = [(~pl.col("kept"), "dropped", of_gold), *((rule, subset, pl.lit(reason)) for rule, subset, reason in rules)]
    return rows.select(
        "prompt_id",
        "n",
        "c",
        subset=pl.coalesce(pl.when(rule).then(pl.lit(subset)) for rule, subset, _ in exprs),
        reason=pl.coalesce(pl.when(rule).then(reason) for rule, _, reason in exprs),
        reference_sample=pl.lit(None, dtype=pl.Int32),
    ).sort("prompt_id")


def given(
    gold: pl.DataFrame, prompts: pl.DataFrame, rows: Sequence[Row], files: Mapping[str, Sequence[Row]], fields: Fields
) -> tuple[pl.DataFrame, str]:
    """The division that two files name, in place of one by pre-samples.

    A row of a file names its prompt by `prompt_id` or `source_index`, or is equal to a row of the training set: in the
    prompt or messages, or else in the question and database.

    Args:
        gold, prompts: one row per prompt; one whose gold answer is not kept is dropped.
        rows: of the training set's source, which `source_index` of `prompts` counts.
        files: the rows of the files, by the subset pef or exp.
        fields: of the training set.

    Returns:
        The table that `candidates` gives, with n and c 0, and how many rows of each file were found.

    Raises:
        ValueError: no row of a file is a prompt, or a prompt is in both files.
    """
    numbers = dict(prompts.select("source_index", "prompt_id").iter_rows())
    ids: dict[object, str] = {key: key for key in numbers.values()}
    ids |= numbers
    ids |= {key: numbers[index] for index, row in enumerate(rows) if index in numbers for key in _keys(row, fields)}
    subsets: dict[str, str] = {}
    notes = []
    for subset, lines in files.items():
        matches = [next((ids[key] for key in _keys(row, fields) if key in ids), None) for row in lines]
        missing = [number for number, prompt_id in enumerate(matches) if prompt_id is None]
        if len(missing) == len(lines):
            raise ValueError(
                f"partition.given.{subset}: none of {len(lines)} rows is a prompt of the training set; expected "
                f"its rows, or rows with prompt_id or source_index, found the fields {', '.join(lines[0])}"
            )
        new = {prompt_id: subset for prompt_id in matches if prompt_id is not None}
        if both := sorted(new.keys() & subsets.keys()):
            raise ValueError(
                f"partition.given: {len(both)} prompts are in both files, first {both[0]}: leave each in one of them"
            )
        subsets |= new
        first = f" ({len(missing)} rows are no prompt, first row {missing[0]})" if missing else ""
        notes.append(f"{len(new)} prompts of {len(lines)} rows for {subset}{first}")
    named = pl.DataFrame({"prompt_id": list(subsets), "subset": list(subsets.values())}, orient="col")
    divided = gold.select("prompt_id", n=pl.lit(0, pl.Int32), c=pl.lit(0, pl.Int32), kept="kept", gold_reason="reason")
    rules = [(pl.col("subset") == subset, subset, "given") for subset in files]
    rules.append((pl.lit(True), "dropped", "in neither file"))
    return _divided(divided.join(named, on="prompt_id", how="left"), rules), "; ".join(notes)


def _keys(row: Row, fields: Fields) -> list[object]:
    """Keys that identify the prompt of a row, best first."""
    # An id is a text and an index a whole number: an id 3 of another tool names no row.
    kinds = (("prompt_id", str), ("source_index", int))
    keys: list[object] = [row[name] for name, kind in kinds if type(row.get(name)) is kind]
    wholes: tuple[tuple[FieldName, ...], ...] = (("prompt",), ("messages",), ("question", "db_id"))
    for names in wholes:
        values: list[Any] = [fields.find(row, name)[1] for name in names]
        if values[0] is not None:
            keys.append(json_text([names, values]))
    return keys


def refine(candidate: pl.DataFrame, verdicts: pl.DataFrame, config: PartitionConfig) -> pl.DataFrame:
    """Decide on the candidates by one further sample, which had no part in choosing them.

    A correct one becomes the reference response; a wrong one moves the prompt to D_exp or drops it (`on_reject`).

    Args:
        candidate: as `candidates` gives it.
        verdicts: of the refine plan, one per candidate of D_pef; anything else is a `ValueError`.
    """
    expected = candidate.filter(pl.col("subset") == "pef").select("prompt_id")
    if not expected["prompt_id"].sort().equals(verdicts["prompt_id"].sort()):
        raise ValueError(
            f"{expected.height} candidates of D_pef but {verdicts.height} verdicts of the refine plan, or of other"
            " prompts: rerun the sample and score stages of the refine plan"
        )
    rejected = pl.lit("exp" if config.on_reject == "explore" else "dropped")
    settled = candidate.join(verdicts.select("prompt_id", "correct", drawn="sample_index"), on="prompt_id", how="left")
    accepted, tried = pl.col("correct").fill_null(False), pl.col("correct").is_not_null()
    return settled.select(
        "prompt_id",
        "n",
        "c",
        subset=pl.when(tried & ~accepted).then(rejected).otherwise("subset"),
        reason=pl.when(tried & ~accepted).then(pl.lit("refined sample wrong")).otherwise("reason"),
        reference_sample=pl.when(accepted).then("drawn"),
    ).sort("prompt_id")
