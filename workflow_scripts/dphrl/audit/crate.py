"""A run as an RO-Crate: one JSON-LD file that lists every artifact, and the actions that made them."""

from __future__ import annotations

import json
import mimetypes
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dphrl.artifacts import replacing
from dphrl.audit.provenance import Provenance
from dphrl.audit.walk import Artifact

METADATA = "ro-crate-metadata.json"

_CRATE = "https://w3id.org/ro/crate/1.1"
_PROCESS_RUN = "https://w3id.org/ro/wfrun/process/0.5"
# Terms of the vocabulary that the context of RO-Crate 1.1 lacks.
_CONTEXT = [f"{_CRATE}/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
_TYPES = {".parquet": "application/vnd.apache.parquet", ".safetensors": "application/octet-stream"}

Entity = dict[str, Any]


def write_crate(root: Path) -> Path:
    """Write `ro-crate-metadata.json` (RO-Crate 1.1, profile Process Run Crate) into a run folder; its path.

    Every artifact is a File with its sha256, every footer a CreateAction: what it read, what it wrote, by which code
    and libraries, with which slice of the config.

    Raises:
        NoRunError: the folder holds no run.
    """
    path = root / METADATA
    text = json.dumps({"@context": _CONTEXT, "@graph": _graph(root)}, indent=1, sort_keys=True, ensure_ascii=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def _graph(root: Path) -> list[Entity]:
    provenance = Provenance(root)
    artifacts = [provenance.artifact(path) for path in provenance.run.artifacts]
    there = [artifact for artifact in artifacts if artifact.file.is_file()]
    entities: dict[str, Entity] = {}
    for artifact in there:
        entities |= {entity["@id"]: entity for entity in [_file(artifact), *_listed(artifact)]}
    files = sorted(entities)
    results: dict[str, list[str]] = {}
    for artifact in there:
        results.setdefault(_maker(provenance, artifact), []).append(artifact.path)
    for path, made in sorted(results.items()):
        entities |= {entity["@id"]: entity for entity in _action(provenance, provenance.artifact(path), made)}
    actions = [name for name, entity in entities.items() if entity["@type"] == "CreateAction"]
    newest = max(artifact.file.stat().st_mtime for artifact in there)
    head: list[Entity] = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": {"@id": _CRATE},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"DPH-RL run {root.absolute().name}",
            "description": "Artifacts of one run of the DPH-RL workflow (arXiv 2509.07430), each with its sha256,"
            " and the stages that made them.",
            "license": "The terms of the data and of the base model that the run started from.",
            "datePublished": datetime.fromtimestamp(newest, UTC).date().isoformat(),
            "conformsTo": {"@id": _PROCESS_RUN},
            "hasPart": _references(files),
            "mentions": _references(actions),
        },
        {"@id": _PROCESS_RUN, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
    ]
    return [*head, *entities.values()]


def _file(artifact: Artifact) -> Entity:
    file = artifact.file
    kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    entity = _sized(artifact.path, file.stat().st_size, artifact.sha256, kind)
    facts = {"schema": artifact.schema, "rows": artifact.rows, "content digest": artifact.digest}
    return entity | {"description": ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)}


def _listed(artifact: Artifact) -> list[Entity]:
    """The files that a manifest stands for."""
    folder = Path(artifact.path).parent
    return [
        _sized((folder / name).as_posix(), entry["size"], entry["sha256"], "application/octet-stream")
        for name, entry in sorted(artifact.footer.get("files", {}).items())
    ]


def _sized(path: str, size: int, sha256: str, kind: str) -> Entity:
    return {"@id": path, "@type": "File", "contentSize": str(size), "sha256": sha256, "encodingFormat": kind}


def _maker(provenance: Provenance, artifact: Artifact) -> str:
    """The artifact whose footer tells how this one was made; itself if none does."""
    try:
        return provenance.maker(artifact.path).path
    except ValueError:
        return artifact.path


def _action(provenance: Provenance, artifact: Artifact, made: list[str]) -> list[Entity]:
    """The action that wrote `made`, with its code, libraries and settings; nothing without a footer that tells them."""
    footer = artifact.footer
    if "code" not in footer:
        return []
    given = provenance.inputs(artifact)
    read = [path for one in given for path in one.paths]
    outside = {f"#{one.digest}": one for one in given if not one.paths}
    stage, code = footer["stage"], footer["code"]
    tool = f"#{stage}-{code[:12]}"
    libraries = {f"#{name}-{version}": (name, version) for name, version in footer.get("libraries", {}).items()}
    settings = {"config": json.dumps(footer.get("config"), sort_keys=True), "seed": json.dumps(footer.get("seed"))}
    values = {f"#{artifact.path}.{name}": (name, value) for name, value in settings.items()}
    return [
        {
            "@id": f"#made-{artifact.path}",
            "@type": "CreateAction",
            "name": stage,
            "instrument": {"@id": tool},
            "object": _references([*read, *outside, *values]),
            "result": _references(made),
        },
        {
            "@id": tool,
            "@type": "SoftwareApplication",
            "name": f"dphrl, stage {stage}",
            "version": code,
            "softwareRequirements": _references(list(libraries)),
        },
        *({"@id": at, "@type": "SoftwareApplication", "name": n, "version": v} for at, (n, v) in libraries.items()),
        *({"@id": at, "@type": "PropertyValue", "name": n, "value": v} for at, (n, v) in values.items()),
        *(
            {"@id": at, "@type": "CreativeWork", "name": one.name, "description": one.where, "identifier": one.digest}
            for at, one in outside.items()
        ),
    ]


def _references(names: list[str]) -> list[Entity]:
    return [{"@id": name} for name in names]
