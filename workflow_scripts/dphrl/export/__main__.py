"""`dphrl export`: the first stages of a run for the trainer that one has."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dphrl.pages.visible import visible

_EPILOG = """\
examples:
  dphrl export results/demo --to trl --out demo-trl
  dphrl export results/mine --to verl --out mine-verl --databases data/databases
  dphrl export results/mine --to jsonl --out mine-jsonl --draw s2

The run needs stages 1 to 4: make run CONFIG=mine.yaml TARGET=reference. DIR gets the prompts of D_exp, the stored
responses of D_pef (rehearsal.jsonl), and the judge (reward.py, scorer.json). docs/with-your-trainer.md says how a
trainer uses them.

exit status: 0, 1 if nothing can be written (the message says what to do), 2 usage"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="dphrl export",
        description="Writes prompts, stored responses and the judge of a run for another trainer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--to", choices=("trl", "verl", "jsonl"), required=True, help="form of the prompts")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="a new or empty folder")
    parser.add_argument(
        "--draw", default="main", help="draw of stage 1: main (default), or s<seed> of a further training seed"
    )
    parser.add_argument(
        "--tokenizer", metavar="DIR", type=Path, help="for trl and verl: the trainer's tokenizer (default: the base's)"
    )
    parser.add_argument(
        "--databases", metavar="DIR", type=Path, help="for SQL on your databases: their folder, as in the run"
    )
    parser.add_argument("--scorer", metavar="FILE", type=Path, help="for a custom scorer: its file, as in the run")
    parser.add_argument(
        "--force", action="store_true", help="write prompts whose tokens the trainer's tokenizer changes"
    )
    given = parser.parse_args(arguments)
    if given.to == "jsonl" and given.tokenizer:
        parser.error("--tokenizer has no effect with --to jsonl: its prompts are tokens of the run; leave it out")
    # Help needs none of this.
    from polars.exceptions import PolarsError

    from dphrl.export.export import Order, export

    try:
        done = export(Order(**vars(given)))
    except (OSError, ValueError, PolarsError) as error:
        print(visible(f"dphrl export: {error}"), file=sys.stderr)
        return 1
    print(visible(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
