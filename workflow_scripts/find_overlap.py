"""Which evaluation prompts are training prompts too."""

from script import snakemake, stage

from dphrl.tasks.overlap import overlap

with stage() as job:
    train = job.read("prompts", snakemake.input.train)
    others = dict(zip(snakemake.params.datasets, snakemake.input.others, strict=True))
    found = overlap(train, {name: job.read(name, path, "prompts") for name, path in others.items()})
    job.write(found, "overlap", snakemake.output.overlap)
