"""The inputs of an artifact, back to data, code, config and library versions; whether they are still the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dphrl.artifacts.code import has_scripts
from dphrl.artifacts.progress import counted
from dphrl.audit.artifacts import ACCEPTED, RECORDED, RERUN, Artifact, NoRunError, Run, manifest_above
from dphrl.audit.one_artifact import check_artifact
from dphrl.audit.staleness import NO_SCRIPTS, accepted, current_code
from dphrl.layout.inputs import inputs_of
from dphrl.layout.kinds import KINDS, kind_of
from dphrl.layout.names import BASE, PolicyName
from dphrl.pages.visible import visible

_WORLD = KINDS["world"].path
# Folders of a run that hold files without a footer.
_FOLDERS = ("toy", "policies", "states", "figures", "tables", "draws", "cards", "report", "audit")


def check_lineage(run: Run, artifact: Artifact) -> None:
    """Compare each input digest in the footer with the artifacts of the run; inputs from outside it are left out."""
    path, recorded, found = artifact.path, artifact.footer.get("inputs", {}), kind_of(artifact.path)
    for name, alternatives in _places(run, path, recorded).items():
        there = [paths for paths in alternatives if paths and all(run.get(path) for path in paths)]
        removed = not there and found is not None and name in found[0].removed
        # Once a training has gone on, only the metrics of a segment are sure to be there.
        if removed and f"train/{_start(run, path)}/metrics.parquet" in run.artifacts:
            continue
        where = " or ".join(_range(paths) for paths in alternatives if paths) or "what it was made from"
        if not artifact.check(bool(there), f"{path} was made from {name!r}, but {where} is not there", RERUN):
            continue
        digests = [run.digest(paths) for paths in there]
        # A damaged input has a failed check already; its digest shows nothing about this artifact.
        if recorded[name] in digests or None not in digests:
            artifact.check(
                recorded[name] in digests,
                f"{path} was made from other {name!r} ({recorded[name][:12]}) than {where} now holds"
                f" ({', '.join(str(digest)[:12] for digest in digests)})",
            )


def _places(run: Run, path: str, names: dict[str, str]) -> dict[str, list[tuple[str, ...]]]:
    """Where the inputs of an artifact can be, as `inputs_of`, in this run folder."""
    return inputs_of(path, names, run.artifacts, run.train_dataset, _start(run, path))


def _start(run: Run, path: str) -> str | None:
    """The policy that a segment started from, by the first step of its metrics; None if there are none."""
    found = kind_of(path)
    if found is None or found[0].name not in ("policy", "state", "metrics", "probes"):
        return None
    end = PolicyName(found[1]["method"], int(found[1]["seed"]), int(found[1]["step"]))
    metrics = run.scan(f"train/{end}/metrics.parquet")
    step = None if metrics is None else metrics.select(pl.col("step").min() - 1).collect().item()
    return None if step is None else str(end._replace(step=step) if step else BASE)


@dataclass(frozen=True)
class Input:
    """One input of a stage.

    Attributes:
        name: the name in the footer.
        digest: the digest in the footer.
        paths: the artifacts of the run that have this digest today (several for a table in shards); empty if the input
            lies outside of the run folder, or has changed.
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
        for path in (RECORDED, ACCEPTED):
            if path in self.run.artifacts:
                self.artifact(path)

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
            return [f"tables/{self.run.recorded('figures').get(file.stem, file.stem)}.parquet"]
        if manifest := manifest_above(file):
            return [manifest]
        return [str(file.with_name("index.parquet")), str(file.with_suffix(".parquet"))]

    def inputs(self, artifact: Artifact) -> list[Input]:
        """The inputs of an artifact, in the order of their names."""
        recorded: dict[str, str] = artifact.footer.get("inputs", {})
        places = _places(self.run, artifact.path, recorded)
        return [self._input(artifact, name, digest, places.get(name, [])) for name, digest in sorted(recorded.items())]

    def _input(self, artifact: Artifact, name: str, digest: str, places: list[tuple[str, ...]]) -> Input:
        for paths in places:
            there = [self.artifact(path) for path in paths if path in self.run.artifacts]
            if there and len(there) == len(paths) and self.run.digest(paths) == digest:
                return Input(name, digest, paths, _range(paths))
        if places:
            return Input(name, digest, (), "CHANGED since, or not there any more")
        toy = self.artifact(_WORLD).footer.get("files", {}) if _WORLD in self.run.artifacts else {}
        for file, entry in toy.items():
            if entry["sha256"] == digest:
                return Input(name, digest, (_WORLD,), f"toy/{file}")
        return Input(name, digest, (), _outside(name, artifact.path))

    def chain(self, path: str) -> Iterator[tuple[int, Artifact]]:
        """The maker of `path`, then all its inputs, direct or not, each once with the fewest steps to `path`."""
        pending, seen = [(0, self.maker(path).path)], set()
        while pending:
            steps, name = pending.pop(0)
            if name not in seen:
                seen.add(name)
                artifact = self.artifact(name)
                yield steps, artifact
                pending += [(steps + 1, path) for given in self.inputs(artifact) for path in given.paths]


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
    stage, code = str(footer.get("stage")), str(footer.get("code"))
    libraries = sorted(footer.get("libraries", {}).items())
    facts = [
        ("DAMAGED", "" if artifact.sound else next(iter(artifact.failed), "not read")),
        ("stage", footer.get("stage")),
        ("code", f"{code[:12]} ({_compared(provenance, stage, code)})"),
        ("config", json.dumps(footer.get("config"), sort_keys=True, ensure_ascii=False)),
        ("seed", footer.get("seed")),
        ("libraries", ", ".join(f"{name} {version}" for name, version in libraries)),
        *(("from", f"{one.name}: {one.where} ({one.digest[:12]})") for one in provenance.inputs(artifact)),
    ]
    head = f"{artifact.path}  (digest {str(artifact.digest or artifact.sha256)[:12]})"
    lines = [head, *(f"  {name:<10} {fact}" for name, fact in facts if fact not in (None, "", "{}"))]
    return "\n".join(visible(line, keep="") for line in lines)


def _compared(provenance: Provenance, stage: str, code: str) -> str:
    """How the code in a footer compares with the code of the stage today."""
    if not has_scripts():
        return f"not compared: {NO_SCRIPTS}"
    now = current_code(provenance.run.recorded("stages"), stage)
    if now is None:
        return "not compared: the run has no audit that names this stage"
    if code == now:
        return "as it is today"
    return "accepted" if accepted(provenance.run).get(code) == now else f"today it is {now[:12]}"


def _root_of(file: Path) -> Path:
    """The run folder of an artifact: the nearest folder from which its path is that of a file of a run."""
    for root in file.parents:
        path = file.relative_to(root).as_posix()
        if path.split("/")[0] in _FOLDERS or kind_of(path) is not None:
            return root
    raise NoRunError(f"{file}: in no folder of a run; name an artifact, e.g. results/demo/partition/final.parquet")


def _range(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"


def _outside(name: str, path: str) -> str:
    """Where an input from outside of the run folder is."""
    dataset = path.rsplit("/", 1)[-1].split(".")[0]
    if name == "source":
        return f"the file that datasets.{dataset}.source names"
    return (
        "the file of recorded answers that the block replay names"
        if name == "recorded"
        else "a file outside of the run"
    )
