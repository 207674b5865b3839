"""The program of `dphrl`."""

import sys

from dphrl.cli import main

if __name__ == "__main__":
    sys.exit(main())
