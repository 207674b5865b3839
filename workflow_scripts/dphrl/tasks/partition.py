"""The division of the training prompts into D_pef, D_exp and the rest (arXiv 2509.07430, section 4, appendix F)."""

import polars as pl

from dphrl.config.blocks.training import PartitionConfig


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
        prompt_id, kept, _, found, _ = odd.row(0)
        raise ValueError(
            f"{odd.height} prompts have other than {n} pre-samples or no gold, first {prompt_id} with {found or 0}"
            f" samples and {'no' if kept is None else 'a'} gold row: rerun prompts, sample and score of that dataset"
        )
    rules = [
        (~pl.col("kept"), "dropped", pl.format("gold: {}", pl.col("gold_reason").fill_null("not kept"))),
        ((pl.col("c") == 0) & config.drop_all_wrong, "dropped", pl.lit("no sample correct")),
        (pl.col("c") >= config.pef_min_correct, "pef", pl.lit("near-perfect")),
        (pl.lit(True), "exp", pl.lit("below threshold")),
    ]
    return rows.select(
        "prompt_id",
        "n",
        "c",
        subset=pl.coalesce(pl.when(rule).then(pl.lit(subset)) for rule, subset, _ in rules),
        reason=pl.coalesce(pl.when(rule).then(reason) for rule, _, reason in rules),
        reference_sample=pl.lit(None, dtype=pl.Int32),
    ).sort("prompt_id")


def refine(candidate: pl.DataFrame, verdicts: pl.DataFrame, config: PartitionConfig) -> pl.DataFrame:
    """Decide on the candidates by one further sample, which removes the selection bias of the first.

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
