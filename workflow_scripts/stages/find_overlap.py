"""Which evaluation prompts are training prompts too."""

from script import snakemake, stage

from dphrl.data.overlap import overlap, shared

with stage() as job:
    train = job.read("prompts", snakemake.input.train)
    others = dict(zip(snakemake.params.datasets, snakemake.input.others, strict=True))
    prompts = {name: job.read(name, path, "prompts") for name, path in others.items()}
    pairs = overlap(train, prompts)
    job.write(pairs, "overlap", snakemake.output.overlap)
    job.note = shared(pairs, prompts)
