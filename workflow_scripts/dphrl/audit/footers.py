"""Checks of a footer against its place: path, stage, seed, names of inputs, keys of the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dphrl.audit.artifacts import Artifact, Run
from dphrl.layout.kinds import Kind, kind_of, slice_keys


def check_footer(run: Run, artifact: Artifact) -> None:
    """Compare a footer with the facts that are known of its place; the seed is that of most footers of the run."""
    path, footer, found = artifact.path, artifact.footer, kind_of(artifact.path)
    if found is None or not artifact.sound:
        return
    kind, fields = found
    if kind.schema not in ("safetensors", "listing"):  # these have no footer
        place = footer.get("path")
        artifact.check(place == path, f"{path} was written as {place}")
    if kind.stage is None:
        return
    stage, seed, config = footer.get("stage"), footer.get("seed"), footer.get("config", {})
    artifact.check(
        re.fullmatch(kind.stage, str(stage)) is not None,
        f"{path} was made by the stage {stage!r}, expected {kind.stage.replace('|', ' or ')}",
    )
    expected = _seed(kind, fields, config, run.seed)
    artifact.check(seed == expected, f"{path} has the seed {seed}, expected {expected}")
    needed = kind.reads | ({"partition"} if fields.get("plan") == "refine" and kind.schema == "rollouts" else set())
    lacking = sorted(needed - set(footer.get("inputs", {})))
    artifact.check(not lacking, f"{path} does not name inputs that its stage reads: {', '.join(lacking)}")
    keys = slice_keys(path)
    artifact.check(
        not keys or set(config) in keys,
        f"{path} has a config with the keys {_listed(config)}, expected {' or '.join(map(_listed, keys))}",
    )


def _seed(kind: Kind, fields: Mapping[str, str], config: Mapping[str, Any], of_run: int | None) -> Any:
    """The seed that a footer should have."""
    if kind.seed == "{seed}":
        return int(fields["seed"])
    if kind.seed == "slice":
        return config.get("toy", {}).get("seed")
    return of_run if kind.seed == "config" else None


def _listed(keys: Mapping[str, Any] | set[str]) -> str:
    return ", ".join(sorted(keys)) or "none"
