"""The model card of each trained policy that is evaluated, in its folder."""

from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.artifacts.manifest import manifest_digest, read_manifest
from dphrl.layout.names import PolicyName
from dphrl.report.cards import Run, card

with stage("cards", libraries=["huggingface_hub"]) as job:
    given, params = snakemake.input, snakemake.params
    run = Run(
        **params.cards,
        base=params.base,
        headline=job.read("headline", given.headline),
        datasets=job.read("datasets", given.datasets),
        sizes=dict(job.read("partition", given.partition).group_by("subset").len().iter_rows()),
    )
    for name, file, path in zip(params.names, given.manifests, snakemake.output.cards, strict=True):
        manifest = read_manifest(Path(file), verify=False)
        command = f"snakemake --cores 2 {file} --configfile CONFIG"
        write_text(
            Path(path), card(PolicyName.parse(name), run, manifest["config"], manifest_digest(manifest), command)
        )
