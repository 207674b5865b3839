"""Whether the config and the code in a footer are still those of today."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dphrl.artifacts.code import code_digest, has_scripts
from dphrl.artifacts.files import write_text
from dphrl.audit.artifacts import ACCEPTED, RECORDED, RERUN, Artifact, Run
from dphrl.config.config import Config
from dphrl.layout.kinds import slice_at

NO_SCRIPTS = "this installation has no scripts of the workflow: use .venv/bin/dphrl of the project"
# The "sources" and the "schemas" behind the code digest of each stage.
Stages = Mapping[str, Mapping[str, Sequence[str]]]


def check_current(run: Run, artifact: Artifact, stages: Stages, config: Config | None) -> None:
    """Compare the code in a footer with the code of today, and its slice of the config with that of `config`.

    Args:
        stages: the stages whose code is compared.
        config: artifacts that it does not plan (a method that it no longer has) are not compared with it.
    """
    footer, path = artifact.footer, artifact.path
    if not artifact.sound or "code" not in footer:
        return
    stage, code = str(footer.get("stage")), str(footer["code"])
    now = current_code(stages, stage)
    if now is not None:
        artifact.check(
            code == now or accepted(run).get(code) == now,
            f"{path} was made by other code of the stage {stage} ({code[:12]}) than there is today ({now[:12]})",
            f"Run snakemake again, or python -m dphrl.audit accept {run.root} if the change is known to be neutral.",
        )
    expected = None if config is None else slice_at(config, path)
    if expected is not None:
        differing = _differing(footer.get("config"), expected)
        problem = f"{path} was made with another config than today's: {', '.join(differing)}"
        artifact.check(not differing, problem, RERUN)


def recorded_stages(run: Run) -> Stages:
    """The stages that the last audit of the run recorded; none for an installation without the scripts."""
    return run.recorded("stages") if has_scripts() else {}


def current_code(stages: Stages, stage: str) -> str | None:
    """Today's code digest of a stage; None for a stage that is not among `stages`."""
    if stage not in stages:
        return None
    try:
        return code_digest(stages[stage]["sources"], stages[stage]["schemas"])
    except (KeyError, ValueError, SyntaxError):
        return "a script or a schema that is gone"


def not_compared(run: Run, stages: Stages, config: Config | None) -> list[str]:
    """What `check_current` had nothing to compare with, and what to do about it."""
    # An audit does not record its own code.
    footers = [artifact.footer for path, artifact in run.artifacts.items() if path != RECORDED]
    left_out = sorted({str(footer.get("stage")) for footer in footers if "code" in footer} - set(stages))
    why = "no audit of this run recorded it" if has_scripts() else NO_SCRIPTS
    code = f"the code of {', '.join(left_out)} ({why})"
    slices = "the configuration (name that of this run by --config)"
    return [*([code] if left_out else []), *([slices] if config is None else [])]


def accepted(run: Run) -> Mapping[str, str]:
    """Today's code digest for each older digest that `accept` recorded as equivalent."""
    artifact = run.get(ACCEPTED)
    sound = artifact is not None and artifact.sound
    found: dict[str, str] = json.loads((run.root / ACCEPTED).read_text(encoding="utf-8")) if sound else {}
    return found


def accept(run: Run) -> int:
    """Accept the code that made the artifacts of a run as equivalent to today's; return how many digests that are.

    The file `accepted.json` of the run maps each digest in footers to today's.

    Raises:
        ValueError: there is no code of today to accept.
    """
    if not has_scripts():
        raise ValueError(f"{run.root}: nothing is accepted ({NO_SCRIPTS})")
    stages = run.recorded("stages")
    made = {(str(a.footer.get("stage")), str(a.footer["code"])) for a in run.artifacts.values() if "code" in a.footer}
    today = [(code, current_code(stages, stage)) for stage, code in sorted(made)]
    equivalent = {code: now for code, now in today if now not in (None, code)}
    write_text(run.root / ACCEPTED, json.dumps(equivalent, indent=1, sort_keys=True) + "\n")
    return len(equivalent)


def _differing(then: object, today: object, at: str = "") -> list[str]:
    """The keys whose values differ, dotted, with both values."""
    if isinstance(then, dict) and isinstance(today, dict):
        keys = sorted({*then, *today})
        return [text for key in keys for text in _differing(then.get(key), today.get(key), f"{at}.{key}".lstrip("."))]
    return [] if then == today else [f"{at or 'all of it'} was {_short(then)}, is {_short(today)}"]


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:60]}..."
