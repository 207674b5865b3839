"""Becomes the program in its arguments, which Linux then kills when the parent ends, however it ends.

A program run by its path, without any import of this package: a function between fork and exec would need a full fork,
which Linux refuses to large processes, and a heavy program would delay the start of every rank.

Arguments: the process id of the parent, and the program with its arguments.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # From <linux/prctl.h>.

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that ended before the call sends no signal.
    if os.getppid() == int(sys.argv[1]):
        os.execvp(sys.argv[2], sys.argv[2:])
