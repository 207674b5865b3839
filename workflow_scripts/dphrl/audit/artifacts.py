"""The artifacts of a run folder, with the results of the checks on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, RootModel

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import PARTS, sidecar
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import stream_digest
from dphrl.layout.kinds import KINDS, is_known, match
from dphrl.layout.names import BASE
from dphrl.pages.visible import visible

RECORDED, ACCEPTED = KINDS["audit"].path, "accepted.json"
MISSING = "missing"
MANIFESTS = ("manifest.json", "state.json")
# What jobs and trackers write for people, without a digest.
_LEFT_OUT = ("logs", "tracking")
# These differ between equal runs or are written during or after the rule `audit`: checked only in a finished run.
_LAST = ("audit", "report", "timings")
_SHOWN_ROWS = 3
RERUN = "Run snakemake again."
# Without its name snakemake makes no intermediate file again.
NAME_IT = "Name it as a target of snakemake."

FindRows = Callable[..., pl.DataFrame]
Result = TypeVar("Result")


class NoRunError(ValueError):
    """A folder is not the folder of a run."""


@dataclass
class Artifact:
    """One file and the checks on it.

    Attributes:
        path: relative to the run folder, with "/".
        sha256: of the bytes on disk; `MISSING` without a file.
        digest: content digest of a table, manifest digest of a manifest, otherwise None.
        sound: the content was read and agrees with the footer; checks that need the content skip other artifacts.
    """

    path: str
    file: Path
    sha256: str = MISSING
    schema: str | None = None
    rows: int | None = None
    digest: str | None = None
    footer: dict[str, Any] = field(default_factory=dict)
    sound: bool = False
    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, ok: bool, problem: str, remedy: str = "") -> bool:
        """Count a check. A failed one is recorded with its remedy; by default: delete the artifact and rerun."""
        if ok:
            self.passed += 1
        else:
            # Names of files and values of footers and rows: text of others, which ends in a terminal.
            self.failed.append(visible(f"{problem}. {remedy or delete_and_rerun(self.path)}", keep=""))
        return ok

    def attempt(self, check: Callable[..., Result], *arguments: Any) -> Result | None:
        """The result of a check; an error in it is a failed check of this artifact, so that others are still made."""
        try:
            return check(*arguments)
        except BaseException as error:
            if not is_failure(error):
                raise
            self.check(False, f"{self.path} cannot be read: {first_line(error, self)}")
            return None


def is_failure(error: BaseException) -> bool:
    """Whether an error is one of the work at hand; panics of libraries in Rust are no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def first_line(error: BaseException, artifact: Artifact) -> str:
    """The first line of an error's text (its type, if there is none), with the artifact's path in the run."""
    text = str(error).replace(str(artifact.file), artifact.path).strip()
    return text.splitlines()[0] if text else type(error).__name__


def check_rows(
    artifact: Artifact, parts: Iterable[Sequence[pl.DataFrame]], checks: Mapping[str, FindRows], remedy: str = ""
) -> bool:
    """Check that some tables hold no wrong rows, in one pass; a failed check names how many and the first few.

    Args:
        artifact: where the checks are counted.
        parts: the tables, a part of each at a time.
        checks: functions that find wrong rows in a part, by what is wrong with them.
        remedy: as in `Artifact.check`.

    Returns:
        Whether all passed.
    """
    count = dict.fromkeys(checks, 0)
    first: dict[str, list[str]] = {problem: [] for problem in checks}
    for part in parts:
        for problem, find in checks.items():
            rows = find(*part)
            count[problem] += rows.height
            more = rows.head(_SHOWN_ROWS - len(first[problem])).iter_rows(named=True)
            first[problem] += [", ".join(f"{name} {value}" for name, value in row.items()) for row in more]
    return all(
        [artifact.check(not n, f"{problem}: {n} ({'; '.join(first[problem])})", remedy) for problem, n in count.items()]
    )


def delete_and_rerun(*paths: str) -> str:
    """The remedy for artifacts that cannot be trusted."""
    return f"Delete {' and '.join(paths)} and run snakemake again."


class _Code(BaseModel):
    model_config = ConfigDict(strict=True)

    sources: list[str]
    schemas: list[str]


class Recorded(BaseModel):
    """What the rule `audit` records about the code, in the config of its footer.

    Attributes:
        stages: the scripts and schemas behind the code digest of each stage.
        figures: the name of the table that each figure draws.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    stages: dict[str, _Code]
    figures: dict[str, str]


class Accepted(RootModel[dict[str, str]]):
    """Today's code digest for each older one that is accepted as equivalent."""

    model_config = ConfigDict(strict=True)


class Run:
    """The artifacts of a run folder by their path.

    Raises:
        NoRunError: no such folder, or nothing in it that this workflow wrote.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise NoRunError(f"{root}: no such folder; name the folder of a run, e.g. results/demo")
        self.root = root
        self.artifacts = {path: Artifact(path, root / path) for path in _paths(root)}
        if not any(map(is_known, self.artifacts)):
            raise NoRunError(f"{root}: no artifact of this workflow in it; name the folder of a run, e.g. results/demo")
        self._digests: dict[tuple[str, ...], str | None] = {}

    def get(self, path: str) -> Artifact | None:
        """The artifact at `path`, sound or not."""
        return self.artifacts.get(path)

    def scan(self, paths: str | Iterable[str]) -> pl.LazyFrame | None:
        """The rows of a table or of its shards; None if one is missing or not sound."""
        found = [self.artifacts.get(path) for path in ([paths] if isinstance(paths, str) else paths)]
        sound = [artifact.file for artifact in found if artifact is not None and artifact.sound]
        return pl.scan_parquet(sound, glob=False) if sound and len(sound) == len(found) else None

    def digest(self, paths: tuple[str, ...]) -> str | None:
        """The digest that a stage records when it reads these; None if one is missing or not sound."""
        artifacts = [self.artifacts[path] for path in paths if path in self.artifacts]
        if len(artifacts) < len(paths) or not all(artifact.sound for artifact in artifacts):
            return None
        if len(artifacts) == 1:
            return artifacts[0].digest or artifacts[0].sha256
        if paths not in self._digests:
            self._digests[paths] = _digest(artifacts)
        return self._digests[paths]

    def recorded(self, what: str) -> dict[str, Any]:
        """What the rule `audit` recorded, by the name of the attribute of `Recorded`; empty where it has not run."""
        audit = self.get(RECORDED)
        found: dict[str, Any] = audit.footer["config"][what] if audit is not None and audit.sound else {}
        return found

    def samples(self, kind: str) -> dict[tuple[str, str, str], dict[int, Artifact]]:
        """The shards of "rollouts" or "verdicts" by their number, for each policy, dataset and plan."""
        samples: dict[tuple[str, str, str], dict[int, Artifact]] = {}
        for path, artifact in self.artifacts.items():
            fields = match(KINDS[kind].path, path)
            if fields is not None:
                drawn = fields["policy"], fields["dataset"], fields["plan"]
                samples.setdefault(drawn, {})[int(fields["shard"])] = artifact
        return samples

    @cached_property
    def train_datasets(self) -> list[str]:
        """The datasets that were pre-sampled: one in a run whose config did not change its training set."""
        samples = self.samples("rollouts") | self.samples("verdicts")
        return sorted({dataset for _, dataset, plan in samples if plan == "presample"})

    @property
    def train_dataset(self) -> str | None:
        """The training set; None if no dataset was pre-sampled, or more than one."""
        return self.train_datasets[0] if len(self.train_datasets) == 1 else None

    def scan_refinement(self, kind: str) -> pl.LazyFrame | None:
        """The "rollouts" or "verdicts" of the refinement; None if a shard is not sound, or without any."""
        shards = self.samples(kind).get((BASE.method, str(self.train_dataset), "refine"), {})
        return self.scan(shard.path for shard in shards.values())


def _digest(shards: Sequence[Artifact]) -> str | None:
    """The digest of the table in these shards, which may be in any order; None if they share a key."""
    schema = str(shards[0].schema)
    rows = {shard.file: pl.scan_parquet(shard.file, glob=False).select(SCHEMAS[schema].key) for shard in shards}
    first = {file: keys.head(1).collect().rows() for file, keys in rows.items()}
    try:
        return stream_digest(sorted((file for file in first if first[file]), key=first.__getitem__), schema)
    except SchemaError:
        return None


def _paths(root: Path) -> list[str]:
    """Every table, every file with a sidecar, and every missing file that left its sidecar behind."""
    left_out = _LEFT_OUT if (root / RECORDED).is_file() else (*_LEFT_OUT, *_LAST)
    found = set()
    for file in root.rglob("*"):
        relative = file.relative_to(root)
        if relative.parts[0] in left_out or not file.is_file() or any(map(_is_temporary, relative.parts)):
            continue
        if file.suffix == ".sha256":
            found.add(relative.with_suffix("").as_posix())
        elif (file.suffix == ".parquet" and not file.name.startswith(".")) or sidecar(file).exists():
            found.add(relative.as_posix())
    return sorted(found)


def _is_temporary(name: str) -> bool:
    """Whether a name is one that a writer uses until its file or folder is whole."""
    return name.startswith(".") and name.endswith((".tmp", PARTS))
