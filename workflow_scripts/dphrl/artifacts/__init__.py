"""The contracts between stages: schemas, tables with footers, manifests, digests, timings, progress."""

from dphrl.artifacts.code import CodeChangedError, code_digest, verify_code
from dphrl.artifacts.files import link_folder, replacing, replacing_folder, seal, sha256_file, sidecar, write_text
from dphrl.artifacts.manifest import ManifestError, manifest_digest, read_manifest, write_manifest
from dphrl.artifacts.progress import ProgressLines
from dphrl.artifacts.schemas import SCHEMAS, VERDICTS, Schema, SchemaError
from dphrl.artifacts.stage import Stage
from dphrl.artifacts.tables import content_digest, read_footer, read_table, write_table

__all__ = [
    "SCHEMAS",
    "VERDICTS",
    "CodeChangedError",
    "ManifestError",
    "ProgressLines",
    "Schema",
    "SchemaError",
    "Stage",
    "code_digest",
    "content_digest",
    "link_folder",
    "manifest_digest",
    "read_footer",
    "read_manifest",
    "read_table",
    "replacing",
    "replacing_folder",
    "seal",
    "sha256_file",
    "sidecar",
    "verify_code",
    "write_manifest",
    "write_table",
    "write_text",
]
