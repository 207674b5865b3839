"""Checks within one artifact: its bytes, its footer, its declared content."""

from __future__ import annotations

import json

import polars as pl
from safetensors import SafetensorError, safe_open

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sha256_file, sidecar
from dphrl.artifacts.manifest import ManifestError, manifest_digest
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import read_footer, stream_digest
from dphrl.audit.artifacts import Artifact, delete_and_rerun
from dphrl.layout.kinds import schema_of

_FOOTER_KEYS = ("stage", "config", "code", "inputs", "libraries")
# What reading a parquet file of another program can raise; a panic is no Exception.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def check_within(artifact: Artifact) -> None:
    """Run every check that needs no other artifact and note schema, rows and digests."""
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
    """Is the file the one that its sidecar was written for?

    If not, it is not read: some damage makes a parquet reader ask for so much memory that the process ends.
    """
    path, remedy = artifact.path, delete_and_rerun(artifact.path)
    if not artifact.check(artifact.file.is_file(), f"{path} is missing, only its sha256 is left. Run snakemake again."):
        return False
    artifact.sha256 = sha256_file(artifact.file)
    if not artifact.check(sidecar(artifact.file).is_file(), f"{path} has no .sha256 beside it. {remedy}"):
        return False
    recorded = sidecar(artifact.file).read_text(encoding="utf-8", errors="replace").strip()
    return artifact.check(
        recorded == f"{artifact.sha256}  {artifact.file.name}",
        f"{path} is not the file that was written: its sidecar says {recorded[:12]!r}, its bytes give"
        f" {artifact.sha256[:12]!r}. {remedy}",
    )


def _check_table(artifact: Artifact, expected: str | None) -> bool:
    path, remedy = artifact.path, delete_and_rerun(artifact.path)
    try:
        footer = artifact.footer = read_footer(artifact.file)
        artifact.rows = pl.scan_parquet(artifact.file, glob=False).select(pl.len()).collect().item()
    except (SchemaError, ValueError, *_UNREADABLE) as error:
        return artifact.check(False, f"{path} cannot be read: {_first_line(error, artifact)}. {remedy}")
    name, version = str(footer.get("schema")), footer.get("version")
    known = SCHEMAS[name].version if name in SCHEMAS else None
    if not artifact.check(
        known is not None and version == known,
        f"{path} declares schema {name!r} version {version}, this code knows version {known}. {remedy}",
    ):
        return False
    artifact.schema = name
    missing = [key for key in _FOOTER_KEYS if key not in footer and name != "timings"]
    artifact.check(not missing, f"{path}: its footer lacks {', '.join(missing)}. {remedy}")
    belongs = artifact.check(
        expected in (None, name), f"{path} holds the schema {name!r}, but {expected!r} belongs there. {remedy}"
    )
    counted = artifact.check(
        footer.get("rows") == artifact.rows,
        f"{path} has {artifact.rows} rows, its footer says {footer.get('rows')}. {remedy}",
    )
    try:
        artifact.digest = stream_digest([artifact.file], name)
    except SchemaError as error:
        return artifact.check(False, f"{_first_line(error, artifact)}. {remedy}")
    except _UNREADABLE as error:
        return artifact.check(False, f"{path} cannot be read: {_first_line(error, artifact)}. {remedy}")
    artifact.check(True, "")
    return belongs and counted


def _first_line(error: BaseException, artifact: Artifact) -> str:
    return str(error).replace(str(artifact.file), artifact.path).splitlines()[0]


def _check_manifest(artifact: Artifact) -> bool:
    path, remedy = artifact.path, delete_and_rerun(artifact.path)
    artifact.schema = "manifest"
    try:
        manifest = json.loads(artifact.file.read_text(encoding="utf-8"))
        files = {name: (entry["size"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, ManifestError) as error:
        return artifact.check(False, f"{path} is no manifest ({type(error).__name__}: {error}). {remedy}")
    artifact.footer, artifact.digest, artifact.rows = manifest, manifest_digest(manifest), len(files)
    missing = [key for key in _FOOTER_KEYS if key not in manifest]
    artifact.check(not missing, f"{path} lacks {', '.join(missing)}. {remedy}")
    folder = artifact.file.parent
    lost = [name for name in files if not (folder / name).is_file()]
    changed = [
        name
        for name, (size, sha256) in files.items()
        if name not in lost and ((folder / name).stat().st_size != size or sha256_file(folder / name) != sha256)
    ]
    whole = artifact.check(not lost, f"{path} lists files that are missing: {', '.join(lost[:5])}. {remedy}")
    same = artifact.check(
        not changed, f"{path} lists files that have changed since: {', '.join(changed[:5])}. {remedy}"
    )
    return whole and same


def _check_safetensors(artifact: Artifact) -> bool:
    artifact.schema = "safetensors"
    try:
        with safe_open(artifact.file, framework="numpy") as file:
            artifact.rows = len(list(file.keys()))
    except (SafetensorError, OSError) as error:
        return artifact.check(False, f"{artifact.path} cannot be read: {error}. {delete_and_rerun(artifact.path)}")
    return artifact.check(True, "")
