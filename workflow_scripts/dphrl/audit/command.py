"""The command `dphrl audit`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from dphrl.audit.artifacts import Run, is_failure
from dphrl.audit.lineage import lineage
from dphrl.audit.run import again, audit, facts, failed_checks, summary
from dphrl.audit.show import show
from dphrl.pages.visible import visible


def check(folder: Path) -> int:
    """Audit a run and print the summary; the exit status is 1 if a check failed, 2 if there is nothing to check."""
    try:
        run = Run(folder)
        table = audit(run)
    except BaseException as error:
        return _failed(error)
    print(summary(table))
    for text in (*facts(run), again(table, folder)):
        if text:
            print(visible(text))
    return 1 if failed_checks(table) else 0


def print_one(name: str, path: Path, **options: int) -> int:
    """Print the text of a subcommand (show, lineage) about a file; the exit status is 2 if there is nothing to show."""
    try:
        text = _SUBCOMMANDS[name](path, **options)
    except BaseException as error:
        return _failed(error)
    print(text)
    return 0


def _failed(error: BaseException) -> int:
    if not is_failure(error):
        raise error
    text = str(error) if isinstance(error, OSError | ValueError) else repr(error)
    print(visible(f"dphrl.audit: {text}"), file=sys.stderr)
    return 2


_SUBCOMMANDS: dict[str, Callable[..., str]] = {"show": show, "lineage": lineage}
