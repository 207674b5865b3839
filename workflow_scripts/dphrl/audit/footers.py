"""Whether a footer is one that the rule of its place writes: stage, seed, names of inputs, keys of the config slice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dphrl.audit.artifacts import Artifact, Run
from dphrl.config.config import Config
from dphrl.layout.inputs import input_names
from dphrl.layout.kinds import Kind, kind_of, slice_at, slice_keys


def check_footer(run: Run, artifact: Artifact, config: Config | None) -> None:
    """Compare a footer with what is known of its place.

    Args:
        config: for the seed, else it is that of the other footers; `check_current` compares the values of a slice.
    """
    path, footer, found = artifact.path, artifact.footer, kind_of(artifact.path)
    if found is None or found[0].stage is None or not artifact.sound:
        return
    kind, fields = found
    planned = config if config is not None and slice_at(config, path) is not None else None
    stage, seed, given = footer.get("stage"), footer.get("seed"), footer.get("config", {})
    artifact.check(
        re.fullmatch(str(kind.stage), str(stage)) is not None,
        f"{path} was made by the stage {stage!r}, expected {str(kind.stage).replace('|', ' or ')}",
    )
    expected = _seed(kind, fields, given, run.seed if planned is None else planned.seed)
    artifact.check(seed == expected, f"{path} has the seed {seed}, expected {expected}")
    strange, needed = input_names(path, footer.get("inputs", {}))
    artifact.check(not strange, f"{path} has inputs that its stage does not read: {', '.join(strange[:5])}")
    artifact.check(not needed, f"{path} does not name inputs that its stage reads: {', '.join(needed)}")
    keys = slice_keys(path)
    artifact.check(
        planned is not None or not keys or set(given) in keys,
        f"{path} has a config with the keys {_listed(given)}, expected {' or '.join(map(_listed, keys))}",
    )


def _seed(kind: Kind, fields: Mapping[str, str], given: Mapping[str, Any], of_config: int | None) -> Any:
    """The seed that a footer should have."""
    if kind.seed == "{seed}":
        return int(fields["seed"])
    if kind.seed == "slice":
        return given.get("toy", {}).get("seed")
    return of_config if kind.seed == "config" else None


def _listed(keys: Mapping[str, Any] | set[str]) -> str:
    return ", ".join(sorted(keys)) or "none"
