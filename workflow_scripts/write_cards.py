"""The model card of each trained policy that is evaluated, in its folder."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.artifacts.manifest import manifest_digest, read_manifest
from dphrl.layout.names import PolicyName
from dphrl.report.cards import Run, card

with stage("huggingface_hub") as job:
    given, params = snakemake.input, snakemake.params
    run = Run(
        **json.loads(params.config),
        base=params.base,
        headline=job.read("headline", given.headline),
        datasets=job.read("datasets", given.datasets),
        sizes=dict(job.read("partition", given.partition).group_by("subset").len().iter_rows()),
    )
    for name, path, command in zip(params.names, snakemake.output.cards, params.commands, strict=True):
        manifest = read_manifest(Path(path).with_name("manifest.json"), verify=False)
        text = card(PolicyName.parse(name), run, manifest["config"], manifest_digest(manifest), command)
        write_text(Path(path), text)
