"""`dphrl report RUN [RUN ...] --out FOLDER` reports several finished runs together."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

_EXAMPLE = """\
example:
  dphrl report results/demo results/demo-second-base --out results/together

exit status: 0 if the report was written, 2 if a folder holds no finished run or the runs cannot be pooled"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="dphrl report",
        description="One page and tables of several finished runs: side by side, and pooled over all their trainings.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folder of a finished run")
    parser.add_argument("--out", metavar="FOLDER", required=True, type=Path, help="folder for the page and tables")
    given = parser.parse_args(arguments)
    # Help needs none of this.
    from dphrl.report.command import run

    return run(given.runs, given.out)


if __name__ == "__main__":
    sys.exit(main())
