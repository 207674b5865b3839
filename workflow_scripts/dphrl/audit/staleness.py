"""Does what a footer says of config and code still hold: would the stage be run in the same way today?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from dphrl.artifacts.code import code_digest
from dphrl.artifacts.files import write_text
from dphrl.audit.artifacts import Artifact, Run
from dphrl.config.config import Config
from dphrl.layout.kinds import slice_of

ACCEPTED = "accepted.json"

# Of each stage the scripts and the schemas that its code digest is made of, under these names.
Stages = Mapping[str, Mapping[str, Sequence[str]]]


def check_current(run: Run, artifact: Artifact, stages: Stages, config: Config | None) -> None:
    """Compare the code in a footer with the code of today, and its slice of the config with that of `config`.

    Args:
        stages: what is not a stage of these is not compared with the code.
        config: what it does not make (a method that it no longer has) is not compared with it.
    """
    footer, path = artifact.footer, artifact.path
    if not artifact.sound or "code" not in footer:
        return
    stage, code = str(footer.get("stage")), str(footer["code"])
    now = current_code(stages, stage)
    if now is not None:
        artifact.check(
            code == now or accepted(run.root).get(code) == now,
            f"{path} was made by other code of the stage {stage} ({code[:12]}) than there is today ({now[:12]})."
            f" Run snakemake again, or python -m dphrl.audit accept {run.root} if the change is known to be neutral.",
        )
    expected = None if config is None else slice_of(config, path)
    if expected is not None:
        then, today = footer.get("config"), json.loads(expected)
        differing = _differing(then, today)
        text = f"{path} was made with another config than today's: {', '.join(differing)}. Run snakemake again."
        artifact.check(not differing, text)


def current_code(stages: Stages, stage: str) -> str | None:
    """The digest that the code of a stage has today; None for a stage that is not known."""
    if stage not in stages:
        return None
    return _code(tuple(stages[stage]["sources"]), tuple(stages[stage]["schemas"]))


@cache
def _code(sources: tuple[str, ...], schemas: tuple[str, ...]) -> str:
    try:
        return code_digest(sources, schemas)
    except (KeyError, ValueError):
        return "a script or a schema that is gone"


def accepted(root: Path) -> Mapping[str, str]:
    """Code digests that stand in footers and are taken for today's, by `accept`."""
    file = root / ACCEPTED
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def accept(run: Run) -> int:
    """Take the code that made the artifacts of a run for today's, as `snakemake --touch` does; how many digests.

    What is accepted stands in `accepted.json` of the run: the digest in footers, then today's.
    """
    stages = run.recorded("stages")
    made = {(str(a.footer.get("stage")), str(a.footer["code"])) for a in run.artifacts.values() if "code" in a.footer}
    today = [(code, current_code(stages, stage)) for stage, code in sorted(made)]
    taken = {code: now for code, now in today if now not in (None, code)}
    write_text(run.root / ACCEPTED, json.dumps(taken, indent=1, sort_keys=True) + "\n")
    return len(taken)


def _differing(then: object, today: object, at: str = "") -> list[str]:
    """The keys whose values differ, dotted, with both values."""
    if isinstance(then, dict) and isinstance(today, dict):
        keys = sorted({*then, *today})
        return [text for key in keys for text in _differing(then.get(key), today.get(key), f"{at}.{key}".lstrip("."))]
    return [] if then == today else [f"{at or 'all of it'} was {_short(then)}, is {_short(today)}"]


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:60]}..."
