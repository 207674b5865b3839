"""The base model: the user's after a supervised start, or the embedded world's, trained from scratch on its corpus."""

import hashlib
import json
from pathlib import Path

from script import label, snakemake, stage

from dphrl.config.blocks.policy import SupervisedConfig
from dphrl.config.blocks.toy import ToyConfig
from dphrl.data.records import read_source
from dphrl.hub import local_files
from dphrl.machine.progress import ProgressLines, counted
from dphrl.store.files import parts_folder, remove_parts, replacing_folder
from dphrl.toy.base_model import toy_start
from dphrl.training.supervised import supervised_start, train_supervised

inputs, output, params = snakemake.input, snakemake.output, snakemake.params
with stage(*filter(params.get, ("toy", "supervised", "prompts")), libraries=["torch", "transformers"]) as job:
    if inputs.get("world"):
        world = ToyConfig(**params.toy)
        start, settings = toy_start(job.folder("world", inputs.world), world), world.training()
    else:
        source = job.file("source", local_files([inputs.source])[0])
        settings = SupervisedConfig(source=source.name, **params.supervised)
        rows, template = read_source(source), params.prompts["template"]
        start = supervised_start(job.folder("start", inputs.start), rows, template, settings)
        if start.left_out:
            job.note = f"{counted(start.left_out, 'row')} of more than {settings.max_tokens} tokens left out"
    key = hashlib.sha256(json.dumps(job.footer(), sort_keys=True).encode()).hexdigest()
    bar = ProgressLines(settings.steps, label, "steps")
    with job.part("train") as facts:
        table = train_supervised(start, settings, parts_folder(Path(output.weights)), key, bar.reached)
        facts["tokens"] = int(table["tokens"][bar.initial :].sum())  # of this process, as its seconds
    bar.close()
    with replacing_folder(Path(output.weights)) as folder:
        start.save(folder)
    job.write(table, "supervised", output.table)
    job.write_manifest(output.manifest)
    remove_parts(output.weights)
