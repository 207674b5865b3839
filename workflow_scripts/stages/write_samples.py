"""The page with the questions and responses of one evaluation set."""

from pathlib import Path

from script import snakemake, stage

from dphrl.config.blocks.evaluation import SamplesConfig
from dphrl.report.methods import label
from dphrl.report.sample_pages import sample_page
from dphrl.store.files import write_text

with stage(libraries=["jinja2"]) as job:
    params, inputs = snakemake.params, snakemake.input
    names = list(map(label, params.policies))
    # Of each shard, the files of all policies stand next to each other.
    rollouts, verdicts = (
        {name: files[place :: len(names)] for place, name in enumerate(names)}
        for files in (inputs.rollouts, inputs.verdicts)
    )
    dataset, limits = snakemake.wildcards.dataset, SamplesConfig(**params.samples)
    page = sample_page(params.run, dataset, inputs.prompts, inputs.gold, rollouts, verdicts, limits)
    write_text(Path(snakemake.output.page), page)
