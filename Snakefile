# The map of the workflow: config, stages, targets. What passes between the stages: docs/artifacts.md.
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from dphrl.config.load import check_files, load_config
from dphrl.config.errors import ConfigError
from dphrl.config.checks import notices

min_version("9.0")

# A config file is complete: Snakemake would merge one given by --configfile over a `configfile:` read here.
if not workflow.configfiles:

    configfile: Path(workflow.basedir) / "config/config.yaml"


try:
    CONFIG = load_config(config)
    check_files(CONFIG, Path.cwd())
except ConfigError as error:
    raise WorkflowError(str(error)) from None


include: "rules/common.smk"
include: "rules/local.smk"
include: "rules/toy.smk"
include: "rules/prompts.smk"
include: "rules/sample.smk"
include: "rules/score.smk"
include: "rules/partition.smk"
include: "rules/reference.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/audit.smk"


onstart:
    print("\n".join(notices(CONFIG)), file=sys.stderr)
    # Each finished job makes this limit wake the scheduler once more a second, for ever: after 200 jobs half a core.
    workflow.scheduler.job_rate_limiter = None


onsuccess:
    print(closing_words(), file=sys.stderr)


rule all:
    default_target: True
    input:
        rules.report.output.page,
        rules.audit.output.page,


rule presample:
    input:
        verdict_shards("base", CONFIG.train_dataset, "presample"),


rule partition:
    input:
        rules.refine.output.partition,


rule reference:
    input:
        with_model(rules.tensorise.output),


rule train:
    input:
        [manifest(policy) for policy in policies()],


rule evaluate:
    input:
        evaluations(),
