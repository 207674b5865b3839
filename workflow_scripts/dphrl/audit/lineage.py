"""The inputs of an artifact, as its footer names them, back to the data; whether they are still the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.artifacts.manifest import folder_of
from dphrl.audit.artifacts import RECORDED, RERUN, Artifact, NoRunError, Run, is_removable, manifest_above
from dphrl.audit.one_artifact import check_artifact
from dphrl.layout.kinds import KINDS, fill, kind_of
from dphrl.layout.names import BASE, PolicyName
from dphrl.machine.progress import counted
from dphrl.pages.visible import visible

# Folders of a run that hold files without a footer.
_FOLDERS = ("toy", "policies", "states", "figures", "tables", "draws", "cards", "report", "audit")


def check_lineage(run: Run, artifact: Artifact) -> None:
    """Compare the digest of each input in the footer with the file of the run; other files have no path to compare."""
    path = artifact.path
    for name, recorded in artifact.footer.get("inputs", {}).items():
        paths = tuple(recorded["paths"])
        if _is_outside(name, paths):
            continue
        missing = [file for file in paths if (manifest_above(Path(file)) or file) not in run.artifacts]
        if missing and all(_is_superseded(run, file) for file in missing):
            continue
        if artifact.check(
            not missing, f"{path} was made from {name!r}, but {_range(missing or paths)} is not there", RERUN
        ):
            now, then = _digest(run, paths), recorded["digest"]
            # The check of a damaged input failed already; its digest says nothing about this artifact.
            artifact.check(
                now in (None, then),
                f"{path} was made from other {name!r} ({then[:12]}) than {_range(paths)} now holds ({str(now)[:12]})",
            )
    kind_and_fields = kind_of(path)
    if kind_and_fields is not None and kind_and_fields[0].name == "metrics" and artifact.sound:
        _check_start(run, artifact, kind_and_fields[1])


def _is_outside(name: str, paths: Sequence[str]) -> bool:
    """Whether an input is from outside of the run: a base name. Files of a run are in folders, but for the world's."""
    return name != "world" and all("/" not in path for path in paths)


def _digest(run: Run, paths: tuple[str, ...]) -> str | None:
    """The present digest of an input; None for a damaged one. A manifest lists the sha256 of its files."""
    manifest = manifest_above(Path(paths[0]))
    if manifest is None:
        return run.digest(paths)
    artifact = run.artifacts[manifest]
    name = Path(paths[0]).relative_to(folder_of(Path(manifest))).as_posix()
    return str(artifact.footer["files"].get(name, {}).get("sha256")) if artifact.sound else None


def _is_superseded(run: Run, path: str) -> bool:
    """Whether a job may have removed a file: it can be removed, and the metrics of its segment are there."""
    kind_and_fields = kind_of(path)
    return (
        kind_and_fields is not None
        and is_removable(path)
        and fill(KINDS["metrics"].path, kind_and_fields[1]) in run.artifacts
    )


def _check_start(run: Run, artifact: Artifact, fields: Mapping[str, str]) -> None:
    """The first step of a segment follows the step of the policy that it started from."""
    before = artifact.footer.get("inputs", {}).get("policy", {}).get("paths", [""])[0]
    rows = run.scan(artifact.path)
    step = None if rows is None else rows.select(pl.col("step").min() - 1).collect().item()
    if step is not None:
        start = PolicyName(fields["method"], int(fields["seed"]), step) if step else BASE
        expected = fill(KINDS["base"].path if start == BASE else KINDS["policy"].path, start._asdict())
        artifact.check(
            before == expected,
            f"{artifact.path} begins with step {step + 1}, but was made from 'policy' {before}, not from {expected}",
        )


@dataclass(frozen=True)
class Input:
    """One input of a stage.

    Attributes:
        name: the name in the footer.
        digest: the digest in the footer.
        paths: the artifacts of the run with this digest today, several for a table in shards. Empty if the input lies
            outside of the run folder or changed since.
        where: the place of the input, for a reader.
    """

    name: str
    digest: str
    paths: tuple[str, ...]
    where: str


class Provenance:
    """The inputs of each artifact of a run folder; artifacts are read when they are needed.

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
            check_artifact(artifact)
        return artifact

    def maker(self, path: str) -> Artifact:
        """The artifact with the footer for `path`: itself, or the table or manifest that it belongs to.

        Raises:
            ValueError: there is none.
        """
        file = Path(path)
        for candidate in (path, *self._written_with(file)):
            if candidate in self.run.artifacts and self.artifact(candidate).footer:
                return self.artifact(candidate)
        raise ValueError(
            f"{self.run.root / path}: no footer shows how it was made; name a table, e.g. tables/headline.parquet, or a"
            " manifest"
        )

    def _written_with(self, file: Path) -> list[str]:
        """The artifacts with a footer that are written together with `file`, or that it draws."""
        if file.parts[0] == "figures":
            return [f"tables/{self.run.figures.get(file.stem, file.stem)}.parquet"]
        if manifest := manifest_above(file):
            return [manifest]
        return [str(file.with_name("index.parquet")), str(file.with_suffix(".parquet"))]

    def inputs(self, artifact: Artifact) -> list[Input]:
        """The inputs of an artifact, in the order of their names."""
        return [self._input(name, recorded) for name, recorded in sorted(artifact.footer.get("inputs", {}).items())]

    def _input(self, name: str, recorded: Mapping[str, Any]) -> Input:
        paths, digest = tuple(recorded["paths"]), recorded["digest"]
        if _is_outside(name, paths):
            return Input(name, digest, (), f"{_range(paths)}, outside of the run")
        makers = tuple(dict.fromkeys(manifest_above(Path(path)) or path for path in paths))
        there = [self.artifact(path) for path in makers if path in self.run.artifacts]
        if len(there) == len(makers) and _digest(self.run, paths) == digest:
            return Input(name, digest, makers, _range(paths))
        return Input(name, digest, (), f"{_range(paths)}: CHANGED since, or not there any more")

    def chain(self, path: str) -> Iterator[tuple[int, Artifact]]:
        """The maker of `path`, then all its inputs, direct or not, each once with the fewest steps to `path`."""
        pending, seen = [(0, self.maker(path).path)], set()
        while pending:
            steps, name = pending.pop(0)
            if name not in seen:
                seen.add(name)
                artifact = self.artifact(name)
                yield steps, artifact
                pending += [(steps + 1, path) for source in self.inputs(artifact) for path in source.paths]


def lineage(file: Path, depth: int | None = None) -> str:
    """Every step from the data to a file, the last step first, as text.

    Args:
        file: any artifact of a run, or a file that belongs to one (weights of a model, a figure, a Markdown table).
        depth: how many steps to go back from the file; those further back are only counted. None: all are shown.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is in no run folder, or no footer shows how it was made.
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; name an artifact, e.g. results/demo/partition/final.parquet")
    root = _root_of(file.absolute())
    provenance, path = Provenance(root), file.absolute().relative_to(root).as_posix()
    steps = list(provenance.chain(path))
    maker = steps[0][1].path
    head = [] if maker == path else [visible(f"{path} belongs to {maker}", keep="")]
    shown = [_describe(provenance, artifact) for away, artifact in steps if depth is None or away <= depth]
    left = len(steps) - len(shown)
    tail = [f"{counted(left, 'artifact')} further back: --depth {steps[-1][0]} shows all."] if left else []
    return "\n\n".join([*head, *shown, *tail])


def _describe(provenance: Provenance, artifact: Artifact) -> str:
    footer = artifact.footer
    libraries = sorted(footer.get("libraries", {}).items())
    facts = [
        ("DAMAGED", "" if artifact.sound else next(iter(artifact.failed), "not read")),
        ("stage", footer.get("stage")),
        ("made by", footer.get("made_by")),
        ("code", str(footer.get("code"))[:12]),
        ("config", json.dumps(footer.get("config"), sort_keys=True, ensure_ascii=False)),
        ("seed", footer.get("seed")),
        ("libraries", ", ".join(f"{name} {version}" for name, version in libraries)),
        *(("from", f"{source.name}: {source.where} ({source.digest[:12]})") for source in provenance.inputs(artifact)),
    ]
    head = f"{artifact.path}  (digest {str(artifact.digest or artifact.sha256)[:12]})"
    lines = [head, *(f"  {name:<10} {fact}" for name, fact in facts if fact not in (None, "", "{}"))]
    return "\n".join(visible(line, keep="") for line in lines)


def _root_of(file: Path) -> Path:
    """The run folder of an artifact: the nearest parent in which its relative path is a known path of a run."""
    for root in file.parents:
        path = file.relative_to(root).as_posix()
        if path.split("/")[0] in _FOLDERS or kind_of(path) is not None:
            return root
    raise NoRunError(f"{file}: in no folder of a run; name an artifact, e.g. results/demo/partition/final.parquet")


def _range(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"
