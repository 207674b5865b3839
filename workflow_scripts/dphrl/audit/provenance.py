"""From an artifact back to data, code, config, model and library versions: who made it, and from what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dphrl.audit.artifacts import RECORDED, Artifact, NoRunError, Run
from dphrl.audit.lineage import sources
from dphrl.audit.staleness import accepted, current_code, noted
from dphrl.audit.within import check_within, expected_schema

_MANIFESTS = ("manifest.json", "state.json")
_TOY = "toy/manifest.json"


@dataclass(frozen=True)
class Input:
    """One input of a stage.

    Attributes:
        name: as the stage calls it.
        digest: what its footer notes.
        paths: the artifacts of the run that have this digest today (a table and its shards are several); empty where
            it lies outside of the run folder, or has changed.
        where: what is known of its place, for a reader.
    """

    name: str
    digest: str
    paths: tuple[str, ...]
    where: str


class Provenance:
    """Who made what in a run folder; artifacts are read as they are asked for.

    Raises:
        NoRunError: the folder holds no run.
    """

    def __init__(self, root: Path) -> None:
        self.run = Run(root)
        self._read: set[str] = set()
        if RECORDED in self.run.artifacts:
            self.artifact(RECORDED)

    def artifact(self, path: str) -> Artifact:
        """An artifact with its digests and footer."""
        artifact = self.run.artifacts[path]
        if path not in self._read:
            self._read.add(path)
            check_within(artifact)
        return artifact

    def maker(self, path: str) -> Artifact:
        """The artifact whose footer tells how `path` was made: itself, or the table or manifest that it belongs to.

        Raises:
            ValueError: there is none.
        """
        file = Path(path)
        near = [path, *(str(file.with_name(name)) for name in _MANIFESTS), *self._told_by(file)]
        for candidate in near:
            if candidate in self.run.artifacts and self.artifact(candidate).footer:
                return self.artifact(candidate)
        raise ValueError(f"{self.run.root / path}: no footer tells how it was made; name a table or a manifest")

    def _told_by(self, file: Path) -> list[str]:
        """The artifacts with a footer that are written along with one that has none, or that it draws."""
        if file.parts[0] == "figures":
            return [f"tables/{noted(self.run, 'figures').get(file.stem, file.stem)}.parquet"]
        if file.parts[0] in ("toy", "policies", "train"):
            return [str(parent / name) for parent in file.parents for name in _MANIFESTS]
        return [str(file.with_name("index.parquet")), str(file.with_suffix(".parquet"))]

    def inputs(self, artifact: Artifact) -> list[Input]:
        """What an artifact was made from, in the order of the names."""
        recorded: dict[str, str] = artifact.footer.get("inputs", {})
        places = sources(self.run, artifact.path, list(recorded))
        return [self._input(artifact, name, digest, places.get(name, [])) for name, digest in sorted(recorded.items())]

    def _input(self, artifact: Artifact, name: str, digest: str, places: list[tuple[str, ...]]) -> Input:
        for paths in places:
            if paths and all(path in self.run.artifacts for path in paths):
                for path in paths:
                    self.artifact(path)
                if self.run.digest(paths) == digest:
                    return Input(name, digest, paths, _range(paths))
        if places:
            return Input(name, digest, (), "CHANGED since, or not there any more")
        toy = self.artifact(_TOY).footer["files"] if _TOY in self.run.artifacts else {}
        inside = [f"toy/{file}" for file, entry in toy.items() if entry["sha256"] == digest]
        if inside:
            return Input(name, digest, (_TOY,), inside[0])
        return Input(name, digest, (), _outside(name, artifact.path))

    def chain(self, path: str) -> Iterator[Artifact]:
        """The maker of `path`, then all that it was made from, directly or not, each once."""
        pending, seen = [self.maker(path).path], set()
        while pending:
            artifact = self.artifact(pending.pop(0))
            if artifact.path not in seen:
                seen.add(artifact.path)
                yield artifact
                pending += [path for given in self.inputs(artifact) for path in given.paths]


def lineage(file: Path) -> str:
    """Every step from the data to a file, the last one first, as text.

    Args:
        file: any artifact of a run, or a file that belongs to one (weights of a model, a figure, a Markdown table).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it lies in no run folder, or nothing tells how it was made.
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; name an artifact, e.g. results/demo/partition/final.parquet")
    root = _root_of(file.absolute())
    provenance = Provenance(root)
    path = file.absolute().relative_to(root).as_posix()
    blocks = [_block(provenance, artifact) for artifact in provenance.chain(path)]
    made = provenance.maker(path).path
    head = [] if made == path else [f"{path} belongs to {made}"]
    return "\n\n".join([*head, *blocks])


def _block(provenance: Provenance, artifact: Artifact) -> str:
    footer = artifact.footer
    stage, code = footer.get("stage"), str(footer.get("code"))
    lines = [f"{artifact.path}  (digest {str(artifact.digest or artifact.sha256)[:12]})"]
    if not artifact.sound:
        lines.append(f"  {'DAMAGED':<10} {artifact.failed[0]}")
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(footer.get("libraries", {}).items()))
    facts = {
        "stage": stage,
        "code": f"{code[:12]} ({_still(provenance, str(stage), code)})",
        "config": json.dumps(footer.get("config"), sort_keys=True, ensure_ascii=False),
        "seed": footer.get("seed"),
        "libraries": libraries,
    }
    lines += [f"  {name:<10} {value}" for name, value in facts.items() if value not in (None, "", "{}")]
    given = provenance.inputs(artifact)
    lines += [f"  {'from':<10} {one.name}: {one.where} ({one.digest[:12]})" for one in given]
    return "\n".join(lines)


def _still(provenance: Provenance, stage: str, code: str) -> str:
    now = current_code(noted(provenance.run, "stages"), stage)
    if now is None:
        return "not compared: the run has no audit that names this stage"
    if code == now:
        return "as it is today"
    return "accepted" if accepted(provenance.run.root).get(code) == now else f"today it is {now[:12]}"


def _root_of(file: Path) -> Path:
    """The run folder of an artifact: the nearest folder from which its path is one of a run."""
    for root in file.parents:
        path = file.relative_to(root).as_posix()
        inside = re.match(r"(toy|policies|train|figures|tables|reference)/", path)
        if inside or (expected_schema(path) not in (None, "safetensors")):
            return root
    raise NoRunError(f"{file}: in no folder of a run; name an artifact, e.g. results/demo/partition/final.parquet")


def _range(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"


def _outside(name: str, path: str) -> str:
    dataset = path.rsplit("/", 1)[-1].split(".")[0]
    if name == "source":
        return f"the file that datasets.{dataset}.source names"
    if name == "recorded":
        return "the file of recorded answers that the block replay names"
    return "a file outside of the run"
