# The workflow: config, stages, targets. The files that pass between stages: docs/artifacts.md.
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import min_version

from dphrl.config.errors import ConfigError
from dphrl.config.yaml_files import merged, read_yaml
from dphrl.plan.start import checked_config

# pathvars: 9.12.0, a function as `priority`: 9.17.0, `cache` with named outputs: 9.20.0, pathvars with storage: 9.21.1.
# No attribute of `workflow` below is documented: tests/workflow/test_oldest.py uses them on this version.
min_version("9.21.1")

# Snakemake merges the files of --configfile, in their order; it would merge them over a `configfile:` read here too.
if not workflow.configfiles:
    if workflow.is_main_process and not workflow.modifier.skip_configfile:
        logger.info("No --configfile is given: this is the demo, config/config.yaml")

    configfile: Path(workflow.basedir) / "config/config.yaml"


# In a module the keys are of the workflow that imports this one.
FILES = [] if workflow.modifier.skip_configfile else list(map(Path, workflow.configfiles))
try:
    # Snakemake merges the files too, but takes the last of two equal keys, and keeps a null that removes a block.
    if FILES:
        config = merged(*map(read_yaml, FILES), workflow.config_settings.config)
    CONFIG = checked_config(config, Path.cwd(), plans=workflow.is_main_process)
except ConfigError as error:
    raise SystemExit(str(ConfigError(error.problems, FILES))) from None


include: "rules/common.smk"
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
include: "rules/targets.smk"
include: "rules/handlers.smk"


rule all:
    """The report and the audit of the whole run."""
    default_target: True
    input:
        rules.report.output.page,
        rules.audit.output.sums,
    localrule: True
