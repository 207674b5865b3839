"""The model card of each trained policy that is evaluated, in its folder."""

from pathlib import Path

from script import snakemake, stage

from dphrl.report.cards import Run, card
from dphrl.store.files import write_text
from dphrl.store.manifest import manifest_digest, read_manifest
from dphrl.store.policy_names import PolicyName

with stage("cards", libraries=["huggingface_hub"]) as job:
    inputs, params = snakemake.input, snakemake.params
    run = Run(
        **params.cards,
        base=params.base,
        headline=job.read("headline", inputs.headline),
        datasets=job.read("datasets", inputs.datasets),
        training=job.read("training", inputs.training),
    )
    partitions = {draw: job.read("partition", path) for draw, path in zip(params.draws, inputs.partitions, strict=True)}
    of_policies = zip(params.names, params.used, inputs.manifests, snakemake.output.cards, strict=True)
    for name, draw, file, path in of_policies:
        sizes = dict(partitions[draw].group_by("subset").len().iter_rows())
        manifest = read_manifest(Path(file))
        command = f"snakemake --cores 2 {file} --configfile CONFIG"
        of_policy = manifest["config"], manifest_digest(manifest), sizes
        write_text(Path(path), card(PolicyName.parse(name), run, *of_policy, command))
