"""Checks within one artifact: its bytes, its footer, its declared content."""

from __future__ import annotations

import polars as pl
from safetensors import SafetensorError, safe_open

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file, sidecar
from dphrl.artifacts.manifest import differences, manifest_digest, read_manifest
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import read_footer, stream_digest
from dphrl.audit.artifacts import RERUN, Artifact
from dphrl.layout.kinds import schema_of

_FOOTER_KEYS = ("stage", "config", "code", "inputs", "libraries")
# What reading a parquet file of another program can raise; a PanicException is not an Exception.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def check_artifact(artifact: Artifact) -> None:
    """Run every check that needs no other artifact; record schema, rows, digests and whether the artifact is sound."""
    if not _check_bytes(artifact):
        return
    expected = schema_of(artifact.path)
    if artifact.file.suffix == ".parquet":
        artifact.sound = _check_table(artifact, expected)
    elif expected == "manifest":
        artifact.sound = _check_manifest(artifact)
    elif artifact.file.suffix == ".safetensors":
        artifact.sound = _check_safetensors(artifact)
    else:
        artifact.sound = True


def _check_bytes(artifact: Artifact) -> bool:
    """Check that the file has the sha256 of its sidecar.

    If not, it is not read: some damage makes a parquet reader ask for so much memory that the process ends.
    """
    path, file = artifact.path, artifact.file
    if not artifact.check(file.is_file(), f"{path} is missing, only its sha256 is left", RERUN):
        return False
    artifact.sha256 = sha256_file(file)
    if not artifact.check(sidecar(file).is_file(), f"{path} has no .sha256 file"):
        return False
    recorded = sidecar(file).read_text(encoding="utf-8", errors="replace").strip()
    return artifact.check(
        recorded == f"{artifact.sha256}  {file.name}",
        f"{path} is not the file that was written: its sidecar has {recorded[:12]!r}, its bytes give"
        f" {artifact.sha256[:12]!r}",
    )


def _check_table(artifact: Artifact, expected: str | None) -> bool:
    path = artifact.path
    try:
        footer = artifact.footer = read_footer(artifact.file)
        artifact.rows = pl.scan_parquet(artifact.file, glob=False).select(pl.len()).collect().item()
    except (ValueError, *_UNREADABLE) as error:
        return artifact.check(False, f"{path} cannot be read: {_first_line(error, artifact)}")
    name, version = str(footer.get("schema")), footer.get("version")
    known = SCHEMAS[name].version if name in SCHEMAS else None
    if not artifact.check(
        known is not None and version == known,
        f"{path} declares schema {name!r} version {version}, this code knows version {known}",
    ):
        return False
    artifact.schema = name
    missing = [key for key in _FOOTER_KEYS if key not in footer and name != "timings"]
    artifact.check(not missing, f"{path}: its footer lacks {', '.join(missing)}")
    belongs = artifact.check(
        expected in (None, name), f"{path} holds the schema {name!r}, but {expected!r} belongs there"
    )
    counted = artifact.check(
        footer.get("rows") == artifact.rows,
        f"{path} has {artifact.rows} rows, its footer says {footer.get('rows')}",
    )
    try:
        artifact.digest = stream_digest([artifact.file], name)
    except SchemaError as error:
        return artifact.check(False, _first_line(error, artifact))
    except _UNREADABLE as error:
        return artifact.check(False, f"{path} cannot be read: {_first_line(error, artifact)}")
    artifact.passed += 1
    return belongs and counted


def _first_line(error: BaseException, artifact: Artifact) -> str:
    return str(error).replace(str(artifact.file), artifact.path).splitlines()[0]


def _check_manifest(artifact: Artifact) -> bool:
    path, artifact.schema = artifact.path, "manifest"
    try:
        manifest = read_manifest(artifact.file, verify=False)
        artifact.digest, artifact.rows = manifest_digest(manifest), len(manifest["files"])
        lost, changed, _ = differences(artifact.file, manifest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return artifact.check(False, f"{path} is no manifest ({type(error).__name__}: {error})")
    artifact.footer = manifest
    missing = [key for key in _FOOTER_KEYS if key not in manifest]
    artifact.check(not missing, f"{path} lacks {', '.join(missing)}")
    whole = artifact.check(not lost, f"{path} lists files that are missing: {', '.join(lost[:5])}")
    same = artifact.check(not changed, f"{path} lists files that have changed since: {', '.join(changed[:5])}")
    return whole and same


def _check_safetensors(artifact: Artifact) -> bool:
    artifact.schema = "safetensors"
    try:
        with safe_open(artifact.file, framework="numpy") as file:
            artifact.rows = len(list(file.keys()))
    except (SafetensorError, OSError) as error:
        return artifact.check(False, f"{artifact.path} cannot be read: {error}")
    artifact.passed += 1
    return True
