"""`dphrl COMMAND`, and `python -m dphrl COMMAND`: what works from a light installation."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from dphrl.extras import advice
from dphrl.pages.visible import visible

# Module with `main(arguments)`, imported when it is called; what it does.
_COMMANDS: Final = {
    "init": ("dphrl.starter.__main__", "a first configuration for your questions and your model"),
    "diagnose": ("dphrl.diagnose.run", "did a model lose its diversity? two files of samples, a verdict"),
    "audit": ("dphrl.audit.__main__", "check every artifact of a run, or show one"),
    "report": ("dphrl.report.__main__", "one page and tables of several finished runs"),
    "export": ("dphrl.export.__main__", "prompts, stored responses and judge of a run, for TRL, verl or your trainer"),
    "plan": ("dphrl.plan.__main__", "memory, disk and hours of a configuration, before anything runs"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status, 2 where it cannot be run."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="dphrl",
        usage="dphrl [-h] COMMAND ...",
        description="Diversity-preserving RL: what a policy can do, and what training took from it.",
        epilog="\n".join(
            ["commands:", *(f"  {name:<10}{text}" for name, (_, text) in _COMMANDS.items()), "", "dphrl COMMAND --help"]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=_COMMANDS, help=argparse.SUPPRESS)
    name = parser.parse_args(given[:1]).command
    try:
        code: int = importlib.import_module(_COMMANDS[name][0]).main(given[1:])
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        print(visible(f"dphrl {name}: {advice(error)}"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of a pipe (head, less) has ended; what is left to print goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
