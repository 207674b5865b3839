"""`dphrl audit RUN` checks a run; its subcommands show an artifact, or the steps that made it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

_SUBCOMMANDS = {
    "show": ("FILE", "Print one artifact: its footer, columns and first rows."),
    "lineage": ("FILE", "Print the steps that made an artifact: with --depth, back to the data."),
}
_EXAMPLES = """\
examples:
  dphrl audit results/demo                                     check every artifact of a run
  dphrl audit show results/demo/partition/final.parquet        print one artifact
  dphrl audit lineage results/demo/tables/headline.parquet     the step that made it, and those of its inputs

exit status: 0 if all is well, 1 if a check failed, 2 if there is nothing to check or to show"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    subcommand = given[0] if given and given[0] in _SUBCOMMANDS else None
    kind = argparse.RawDescriptionHelpFormatter
    if subcommand:
        name, text = _SUBCOMMANDS[subcommand]
        parser = argparse.ArgumentParser(prog=f"dphrl audit {subcommand}", description=text, formatter_class=kind)
        parser.add_argument("path", metavar=name, type=Path)
        if subcommand == "lineage":
            text = "how many steps to go back from the file (default: 1, to its inputs)"
            parser.add_argument("--depth", metavar="N", type=int, default=1, help=text)
    else:
        parser = argparse.ArgumentParser(
            prog="dphrl audit",
            usage="dphrl audit [-h] RUN | show FILE | lineage FILE [--depth N]",
            description="Check all artifacts of a run, or show one of them.",
            epilog=_EXAMPLES,
            formatter_class=kind,
        )
        parser.add_argument("path", metavar="RUN", type=Path, help="folder of the run")
    options = parser.parse_args(given[1:] if subcommand else given)
    if subcommand == "lineage" and options.depth < 0:
        parser.error(f"--depth {options.depth}: expected 0 (the file alone) or more")
    # Help needs none of this.
    from dphrl.audit.command import check, print_one

    if not subcommand:
        return check(options.path)
    return print_one(subcommand, **vars(options))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has ended.
        sys.stderr.close()
