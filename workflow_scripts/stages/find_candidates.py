"""The training prompts, divided by how many of their pre-samples are right, or by two files."""

import polars as pl
from script import snakemake, stage

from dphrl.config.blocks.training import PartitionConfig
from dphrl.data.fields import Fields
from dphrl.data.partition import candidates, given
from dphrl.data.partition_counts import require_answers, sizes, thresholds
from dphrl.data.records import read_source
from dphrl.hub import local_files
from dphrl.store.parquet import by_prompts

with stage("n", "partition", "fields") as job:
    params, files = snakemake.params, snakemake.input
    gold = job.scan("gold", files.gold)
    if files.given:
        names = zip(("source", "pef", "exp"), files.given, strict=True)
        rows, pef, exp = (read_source(job.file(name, local_files([path])[0])) for name, path in names)
        prompts = job.read("prompts", files.prompts)
        table, note = given(gold.collect(), prompts, rows, {"pef": pef, "exp": exp}, Fields(params.fields))
        job.write(table, "partition", snakemake.output.partition)
        job.note = f"{sizes(table.lazy())}: {note}"
    else:
        rules, verdicts = PartitionConfig(**params.partition), job.scan("verdicts", files.verdicts)
        if not params.allow_empty:
            require_answers(verdicts)
        parts = (candidates(answers, judged, params.n, rules) for judged, answers in by_prompts(verdicts, gold))
        job.write(parts, "partition", snakemake.output.partition)
        divided = pl.scan_parquet(snakemake.output.partition, glob=False)
        job.note = f"{sizes(divided)}; questions by right pre-samples: {thresholds(divided) or 'none has one'}"
