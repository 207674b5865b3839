"""A verdict for each response of a shard."""

import polars as pl
from script import snakemake, stage

from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict_tables import correct, score_rollouts, unanswered_or_cut_off
from dphrl.store.parquet import by_prompts

with stage("task", "scorer", "thoughts", libraries=["sqlglot", "math-verify"]) as job:
    rollouts = job.scan("rollouts", snakemake.input.rollouts)
    gold = job.scan("gold", snakemake.input.gold)
    prompts = job.scan("prompts", snakemake.input.prompts).select("prompt_id", "thought_open")
    params = snakemake.params
    files = {"databases": params.databases, "source": job.scoring_files(snakemake.input)}
    with make_scorer(params.task, params.scorer, workers=snakemake.threads, **files) as scorer:
        verdicts = (
            score_rollouts(drawn, truths, asked, scorer, params.thoughts)
            for drawn, truths, asked in by_prompts(rollouts, gold, prompts)
        )
        job.write(verdicts, "verdicts", snakemake.output.verdicts)
    judged = pl.scan_parquet(snakemake.output.verdicts, glob=False)
    notes = correct(judged), unanswered_or_cut_off(rollouts, judged, params.scorer.get("answer"))
    job.note = "; ".join(filter(None, notes))
