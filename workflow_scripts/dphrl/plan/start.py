"""The configuration of a run as the Snakefile takes it: checked, with all that it names, before the first job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dphrl.config.config import Config
from dphrl.config.load import check_planned, load_config
from dphrl.config.places import check_files
from dphrl.plan.describe import check_fits
from dphrl.store.folder import check_folder


def checked_config(data: Mapping[str, Any], folder: Path, *, plans: bool) -> Config:
    """The configuration with all defaults.

    Args:
        data: its keys, of all files together.
        folder: where Snakemake runs; relative paths start here.
        plans: whether this process plans the run; a job reads the Snakefile again.

    Raises:
        ConfigError: a key is wrong; a file, folder, model or function is not there or cannot be used; the folder has
            results of another version or seed; or a job cannot fit on the GPUs.
    """
    config = load_config(data)
    check_planned(data, plans)
    check_files(config, folder)
    if plans and any(method.functions for method in config.methods.values()):
        from dphrl.objective.user_functions import check_functions  # with torch, which takes seconds to import

        check_functions(config.methods, config.train.rollouts_per_prompt)
    check_folder(config, folder)
    check_fits(config, folder)
    return config
