"""The command `dphrl audit`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dphrl.artifacts.progress import counted
from dphrl.audit.artifacts import Run, is_failure
from dphrl.audit.lineage import lineage
from dphrl.audit.one_artifact import check_artifact
from dphrl.audit.run import again, audit, failed_checks, of_the_run, summary, tensors_left_out
from dphrl.audit.show import show
from dphrl.audit.staleness import accept, not_compared, recorded_stages
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.extras import advice
from dphrl.pages.visible import visible


def check(folder: Path, named: Sequence[Path], default: Path) -> int:
    """Audit a run and print the summary; the exit status is 1 if a check failed, 2 if there is nothing to check.

    Args:
        named: files of the configuration to compare footers with; each changes those before it.
        default: the one to compare with where none is named and this one is that of the run.
    """
    try:
        config, run, left_out = _config_of(folder, named, default), Run(folder), tensors_left_out()
        table = audit(run, config, tensors=not left_out)
    except BaseException as error:
        return _failed(error)
    print(summary(table, [*left_out, *not_compared(run, recorded_stages(run), config)]))
    if own := of_the_run(run):
        print(own)
    of_default = "" if config is not None else " --configfile FILE (the configuration of this run)"
    command = again(table, folder, " ".join([" --configfile", *map(str, named)]) if named else of_default)
    if command:
        print(visible(command))
    return 1 if failed_checks(table) else 0


def print_one(name: str, path: Path, **options: int) -> int:
    """Print what a subcommand (show, lineage, accept) says of a path; the exit status is 2 if it can say nothing."""
    try:
        text = _SUBCOMMANDS[name](path, **options)
    except BaseException as error:
        return _failed(error)
    print(text)
    return 0


def _failed(error: BaseException) -> int:
    if not is_failure(error):
        raise error
    text = str(error) if isinstance(error, OSError | ValueError | ConfigError) else repr(error)
    if isinstance(error, ModuleNotFoundError):
        text = advice(error)
    print(visible(f"dphrl.audit: {text}"), file=sys.stderr)
    return 2


def _config_of(run: Path, named: Sequence[Path], default: Path) -> Config | None:
    """The configuration that was named; else the default configuration, if it is that of this run."""
    if named:
        return read_config(*named)
    config = read_config(default) if default.is_file() else None
    return config if config is not None and config.run == run.absolute().name else None


def _accept(root: Path) -> str:
    run = Run(root)
    for artifact in run.artifacts.values():
        check_artifact(artifact)
    return f"accepted as equivalent to today's code: {counted(accept(run), 'digest')} of other code"


_SUBCOMMANDS: dict[str, Callable[..., str]] = {"show": show, "lineage": lineage, "accept": _accept}
