"""`python -m dphrl.audit RUN` checks a run; `python -m dphrl.audit show FILE` prints an artifact."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.audit.run import audit_run, failed_checks, summary
from dphrl.audit.show import show

_EXAMPLES = """\
examples:
  python -m dphrl.audit results/demo                                  check every artifact of a run
  python -m dphrl.audit show results/demo/partition/final.parquet     print one artifact

exit status: 0 if all is well, 1 if a check failed, 2 if there is nothing to check or to show"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    shows = given[:1] == ["show"]
    parser = argparse.ArgumentParser(
        prog="python -m dphrl.audit",
        usage="python -m dphrl.audit [-h] RUN | show FILE",
        description="Check the artifacts of a run within and across (nothing is changed), or print one artifact.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    name, what = ("FILE", "a table, manifest or safetensors file") if shows else ("RUN", "folder of a run")
    parser.add_argument("path", metavar=name, type=Path, help=what)
    path = parser.parse_args(given[1:] if shows else given).path
    try:
        if shows:
            print(show(path))
            return 0
        table = audit_run(path)
    except (OSError, ValueError) as error:
        print(f"dphrl.audit: {error}", file=sys.stderr)
        return 2
    print(summary(table))
    return 1 if failed_checks(table) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough.
        sys.stderr.close()
