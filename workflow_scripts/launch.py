"""Start Snakemake in a folder, also after a kill -9. All arguments are passed to Snakemake.

Snakemake cannot do this: after a kill -9 it refuses to start, and its jobs go on as orphans. This program ends them,
removes their temporary files and the lock, unless another Snakemake of the folder is running; then it runs Snakemake.

Ctrl-C, SIGTERM (docker stop, a batch system) and SIGHUP end the jobs within seconds, in the background of a script too,
with the exit status 130, 143 or 129. The same command goes on. `snakemake` by itself lets the jobs end after SIGTERM.
"""

import argparse
import sys
from pathlib import Path

from snakemake.cli import main
from snakemake.scheduling.job_scheduler import JobScheduler

from dphrl.machine.leftovers import AtWorkError, JobsEnder, end_jobs, remove_leftovers
from dphrl.machine.settings import tune_launcher

tune_launcher()
parser = argparse.ArgumentParser(description=__doc__, epilog="Options of Snakemake: snakemake --help")
parser.add_argument("--directory", "-d", type=Path, default=Path(), help="where to run; default: the current folder")
folder = parser.parse_known_args()[0].directory.resolve()
try:
    remove_leftovers(folder)
except AtWorkError as error:
    sys.exit(str(error))
except OSError as error:
    sys.exit(f"{error}: change the permissions, or start in another folder (--directory)")
ender = JobsEnder()
# Snakemake sets this handler of SIGTERM later; its own lets the jobs at work end by themselves.
JobScheduler.exit_gracefully = ender
try:
    main(sys.argv[1:])
except (KeyboardInterrupt, SystemExit):
    if not ender.number:
        raise
end_jobs()  # also those that started after the signal
remove_leftovers(folder)
sys.exit(128 + ender.number)
