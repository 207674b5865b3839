"""Checks of one artifact by itself: its content, then its footer against its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl
from safetensors import safe_open

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.manifest import differences, manifest_digest, read_manifest
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import check_listed, read_footer, table_digest
from dphrl.audit.artifacts import (
    NAME_IT,
    RECORDED,
    Artifact,
    Recorded,
    Run,
    delete_and_rerun,
    first_line,
)
from dphrl.layout.kinds import Kind, is_known, kind_of, schema_of, slice_keys

_FOOTER_KEYS = ("path", "made_by", "stage", "config", "code", "inputs", "libraries", "seed")
# A row group of 8,192 rows needs some hundred bytes of metadata. A reader does work for each row that a file claims.
_ROWS_PER_BYTE = 100
_ADAPTER = "adapter_config.json"


def check_artifact(artifact: Artifact) -> None:
    """Run every check that needs no other artifact; record schema, rows, digests and whether the artifact is sound."""
    artifact.sound = bool(artifact.attempt(_is_sound, artifact))


def _is_sound(artifact: Artifact) -> bool:
    path, file, expected = artifact.path, artifact.file, schema_of(artifact.path)
    if not is_known(path):
        artifact.sha256 = artifact.hash(file)
        return artifact.check(False, f"{path} is not known to this workflow", "Move it out of the folder of the run.")
    if not artifact.check(file.is_file(), f"{path} is missing, only its folder is left", NAME_IT):
        return False
    artifact.sha256 = artifact.hash(file)
    if file.suffix == ".parquet":
        return _check_table(artifact, expected)
    if expected == "manifest":
        return _check_manifest(artifact)
    if expected == "safetensors":
        return _check_safetensors(artifact)
    return True


def _check_table(artifact: Artifact, expected: str | None) -> bool:
    path, file = artifact.path, artifact.file
    try:
        footer = artifact.footer = read_footer(file)
    except SchemaError as error:
        return artifact.check(False, first_line(error, artifact))
    artifact.rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    name, version = str(footer.get("schema")), footer.get("version")
    newest = SCHEMAS[name].version if name in SCHEMAS else None
    if not artifact.check(
        newest is not None and version == newest,
        f"{path} declares schema {name!r} version {version}, this code knows version {newest}",
    ):
        return False
    artifact.schema = name
    missing = [key for key in _FOOTER_KEYS if key not in footer and name != "timings"]
    artifact.check(not missing, f"{path}: its footer lacks {', '.join(missing)}")
    belongs = artifact.check(name == expected, f"{path} holds the schema {name!r}, but {expected!r} belongs there")
    counted = artifact.check(
        footer.get("rows") == artifact.rows,
        f"{path} has {artifact.rows} rows, its footer says {footer.get('rows')}",
    )
    size = file.stat().st_size
    if not artifact.check(
        artifact.rows <= _ROWS_PER_BYTE * size, f"{path} claims {artifact.rows} rows in {size} bytes: it is not read"
    ):
        return False
    if path == RECORDED:
        Recorded.model_validate(footer.get("config"))
    try:
        artifact.digest = table_digest([file], name)
    except SchemaError as error:
        return artifact.check(False, first_line(error, artifact))
    artifact.passed += 1
    return belongs and counted


def _check_manifest(artifact: Artifact) -> bool:
    path, artifact.schema = artifact.path, "manifest"
    manifest = artifact.footer = read_manifest(artifact.file, verify=False)
    artifact.digest, artifact.rows = manifest_digest(manifest), len(manifest["files"])
    missing = [key for key in _FOOTER_KEYS if key not in manifest]
    artifact.check(not missing, f"{path} lacks {', '.join(missing)}")
    adapters = [name for name in manifest["files"] if name.rpartition("/")[2] == _ADAPTER]
    lost, changed, more = differences(artifact.file, manifest, artifact.hash)
    problems = {
        "lists files that are missing": (lost, ""),
        "lists files that have changed since": (changed, ""),
        "has files in its folder that it does not list": (more, "Move them out of the folder of the run."),
        "lists an adapter, which a trainer would apply and an engine would not": (adapters, ""),
    }
    return all(
        [
            artifact.check(not names, f"{path} {problem}: {', '.join(names[:5])}", remedy)
            for problem, (names, remedy) in problems.items()
        ]
    )


def _check_safetensors(artifact: Artifact) -> bool:
    artifact.schema = "safetensors"
    index = artifact.file.with_name("index.parquet")
    try:
        check_listed(artifact.file, artifact.sha256, index)
    except SchemaError as error:
        remedy = delete_and_rerun(artifact.path, artifact.path.replace(artifact.file.name, index.name))
        return artifact.check(False, first_line(error, artifact), remedy)
    artifact.passed += 1
    with safe_open(artifact.file, framework="numpy") as file:
        artifact.rows = len(list(file.keys()))
    artifact.passed += 1
    return True


def check_footer(run: Run, artifact: Artifact) -> None:
    """Compare a footer with the facts that its place implies. The expected seed is the seed of most footers."""
    path, footer, kind_and_fields = artifact.path, artifact.footer, kind_of(artifact.path)
    if kind_and_fields is None or not artifact.sound:
        return
    kind, fields = kind_and_fields
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
        return (config.get("supervised") or config.get("toy", {})).get("seed")
    return of_run if kind.seed == "config" else None


def _listed(keys: Mapping[str, Any] | set[str]) -> str:
    return ", ".join(sorted(keys)) or "none"
