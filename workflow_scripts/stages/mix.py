"""The weights between the base and a policy."""

from pathlib import Path

from script import snakemake, stage

from dphrl.policy.mixture import mix
from dphrl.store.files import replacing_folder

with stage("share", libraries=["torch", "safetensors"]) as job:
    inputs, output = snakemake.input, snakemake.output
    base, policy = job.folder("base", inputs.base), job.folder("policy", inputs.policy)
    with replacing_folder(Path(output.weights)) as folder:
        digests = mix(base, policy, snakemake.params.share, folder)
    job.write_manifest(output.manifest, digests)
