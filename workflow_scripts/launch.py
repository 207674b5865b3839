"""Start Snakemake in a folder, also after a kill -9. All arguments are passed to Snakemake.

Snakemake cannot do this: after a kill -9 it refuses to start, and its jobs go on as orphans. This program ends them,
removes their temporary files and the lock, unless another Snakemake of the folder is running; then it runs Snakemake.
After Ctrl-C the exit status is 130, and the same command goes on.
"""

import argparse
import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from snakemake.cli import main

from dphrl.machine.leftovers import AtWorkError, UnwritableError, remove_leftovers

interrupted = False


def interrupt(number: int, frame: FrameType | None) -> None:
    """Note the Ctrl-C, which Snakemake answers with an ordinary failure."""
    global interrupted
    interrupted = True
    # Without it Snakemake would print errors of its asyncio loop, which the interrupt may have left running.
    logging.lastResort = logging.NullHandler()
    signal.default_int_handler(number, frame)


parser = argparse.ArgumentParser(description=__doc__, epilog="Options of Snakemake: snakemake --help")
parser.add_argument("--directory", "-d", type=Path, default=Path(), help="where to run; default: the current folder")
try:
    remove_leftovers(parser.parse_known_args()[0].directory.resolve())
    signal.signal(signal.SIGINT, interrupt)
    main(sys.argv[1:])
except (AtWorkError, UnwritableError) as error:
    sys.exit(str(error))
except (KeyboardInterrupt, SystemExit) as ended:
    sys.exit(130 if interrupted else ended.code if isinstance(ended, SystemExit) else 1)
