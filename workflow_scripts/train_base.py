"""The embedded default's base model, trained from scratch on the supervised corpus."""

from pathlib import Path

from script import label, snakemake, stage

from dphrl.artifacts.files import replacing_folder
from dphrl.config.blocks.toy import ToyConfig
from dphrl.machine.progress import ProgressLines
from dphrl.toy.base import train_base

with stage("toy", libraries=["torch", "transformers"]) as job:
    world = job.folder("world", snakemake.input.world)
    config = ToyConfig(**snakemake.params.toy)
    bar = ProgressLines(total=config.optimizer.steps, desc=label(), unit=" step")
    with replacing_folder(Path(snakemake.output.weights)) as folder, job.part("train"):
        train_base(world, folder, config, lambda done, steps: bar.update(), threads=config.threads)
    bar.close()
    job.write_manifest(snakemake.output.manifest)
