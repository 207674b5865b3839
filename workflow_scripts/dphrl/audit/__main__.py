"""`python -m dphrl.audit RUN` checks a run; its subcommands show an artifact, or the steps that made it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dphrl.audit.artifacts import Run, is_failure
from dphrl.audit.lineage import lineage
from dphrl.audit.one_artifact import check_artifact
from dphrl.audit.run import audit, failed_checks, summary
from dphrl.audit.show import show
from dphrl.audit.staleness import accept, not_compared
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.pages.visible import visible

_CONFIG = Path("config/config.yaml")
_EXAMPLES = """\
examples:
  python -m dphrl.audit results/demo                                     check every artifact of a run
  python -m dphrl.audit results/bird --config bird.yaml                  and compare footers with that configuration
  python -m dphrl.audit show results/demo/partition/final.parquet        print one artifact
  python -m dphrl.audit lineage results/demo/tables/headline.parquet     every step that made it, back to the data
  python -m dphrl.audit accept results/demo                              accept its code as equivalent to today's

exit status: 0 if all is well, 1 if a check failed, 2 if there is nothing to check or to show"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = _COMMANDS.get(given[0]) if given else None
    parser = argparse.ArgumentParser(
        prog="python -m dphrl.audit",
        usage="python -m dphrl.audit [-h] RUN [--config FILE] | show FILE | lineage FILE | accept RUN",
        description="Check all artifacts of a run, or show one of them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="folder of a run, or an artifact")
    if command is None:
        parser.add_argument("--config", type=Path, help=f"configuration to compare footers with; default: {_CONFIG}")
    options = parser.parse_args(given[1:] if command else given)
    try:
        if command:
            print(command(options.path))
            return 0
        config, run = _config_of(options.path, options.config), Run(options.path)
        table = audit(run, config)
    except BaseException as error:
        if not is_failure(error):
            raise
        text = str(error) if isinstance(error, OSError | ValueError | ConfigError) else repr(error)
        print(visible(f"dphrl.audit: {text}"), file=sys.stderr)
        return 2
    print(summary(table, not_compared(run, run.recorded("stages"), config)))
    return 1 if failed_checks(table) else 0


def _config_of(run: Path, named: Path | None) -> Config | None:
    """The configuration that was named; else the default configuration, if it is that of this run."""
    if named is not None:
        return read_config(named)
    config = read_config(_CONFIG) if _CONFIG.is_file() else None
    return config if config is not None and config.run == run.absolute().name else None


def _accept(root: Path) -> str:
    run = Run(root)
    for artifact in run.artifacts.values():
        check_artifact(artifact)
    return f"{accept(run)} digests of other code are accepted as equivalent to today's"


_COMMANDS: dict[str, Callable[[Path], str]] = {"show": show, "lineage": lineage, "accept": _accept}

if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has ended.
        sys.stderr.close()
