"""The artifacts of a run folder, and what is known of each while it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import sidecar
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import stream_digest
from dphrl.layout.kinds import KINDS, match

RECORDED = "audit/audit.parquet"
# Differ between equal runs, or are written while or after the rule `audit` runs: checked once that has finished.
_LAST = ("audit", "report", "timings")
_SHOWN_ROWS = 3


class NoRunError(ValueError):
    """A folder holds no run."""


@dataclass
class Artifact:
    """One file and the checks on it.

    Attributes:
        path: relative to the run folder, with "/".
        sha256: of the bytes on disk; "missing" without a file.
        digest: content digest of a table, manifest digest of a manifest, otherwise None.
        sound: the content could be read and is what its footer declares; checks that need it skip what is not.
    """

    path: str
    file: Path
    sha256: str = "missing"
    schema: str | None = None
    rows: int | None = None
    digest: str | None = None
    footer: dict[str, Any] = field(default_factory=dict)
    sound: bool = False
    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, ok: bool, otherwise: str) -> bool:
        """Count a check; `otherwise` says what is wrong and what to do."""
        if ok:
            self.passed += 1
        else:
            self.failed.append(otherwise)
        return ok


@dataclass(frozen=True)
class RowCheck:
    """A check that finds no row in any part of some tables.

    Attributes:
        artifact: whose check it is.
        what: what is wrong with the rows that it finds.
        remedy: what to do then.
        offending: the frames of a part to the rows that are wrong.
    """

    artifact: Artifact
    what: str
    remedy: str
    offending: Callable[..., pl.DataFrame]


def check_rows(parts: Iterable[Sequence[pl.DataFrame]], checks: Sequence[RowCheck]) -> bool:
    """Count these checks, in one pass; a text names how many rows there are and the first few. Whether all passed."""
    found = [0] * len(checks)
    first: list[list[str]] = [[] for _ in checks]
    for part in parts:
        for number, check in enumerate(checks):
            rows = check.offending(*part)
            found[number] += rows.height
            more = rows.head(_SHOWN_ROWS - len(first[number])).iter_rows(named=True)
            first[number] += [", ".join(f"{name} {value}" for name, value in row.items()) for row in more]
    texts = [
        f"{check.what}: {count} ({'; '.join(rows)}). {check.remedy}"
        for check, count, rows in zip(checks, found, first, strict=True)
    ]
    return all([check.artifact.check(not n, text) for check, n, text in zip(checks, found, texts, strict=True)])


def delete_and_rerun(*paths: str) -> str:
    """The remedy for artifacts that cannot be trusted."""
    return f"Delete {' and '.join(paths)} and run snakemake again."


@dataclass(frozen=True)
class Group:
    """The rollouts (or verdicts) of one policy on one dataset by one plan; shards by their number."""

    policy: str
    dataset: str
    plan: str
    shards: dict[int, Artifact]


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
        if not self.artifacts:
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
        """What a stage that reads these notes of its input; None if one is missing or not sound."""
        artifacts = [self.artifacts[path] for path in paths if path in self.artifacts]
        if len(artifacts) < len(paths) or not all(artifact.sound for artifact in artifacts):
            return None
        if len(artifacts) == 1:
            return artifacts[0].digest or artifacts[0].sha256
        if paths not in self._digests:
            self._digests[paths] = _digest(artifacts)
        return self._digests[paths]

    def recorded(self, what: str) -> dict[str, Any]:
        """What the rule `audit` recorded of the code in the footer of its table; empty where it has not run.

        Args:
            what: "stages" (of each stage the scripts and schemas behind its code digest), or "figures" (the name of
                the table that each draws).
        """
        audit = self.get(RECORDED)
        config = audit.footer.get("config") if audit is not None else None
        found: dict[str, Any] = config.get(what, {}) if isinstance(config, dict) else {}
        return found

    def groups(self, kind: str) -> list[Group]:
        """The groups of shards of "rollouts" or "verdicts"."""
        groups: dict[tuple[str, ...], Group] = {}
        for path, artifact in self.artifacts.items():
            fields = match(KINDS[kind].path, path)
            if fields is not None:
                name = fields["policy"], fields["dataset"], fields["plan"]
                groups.setdefault(name, Group(*name, {})).shards[int(fields["shard"])] = artifact
        return list(groups.values())

    def train_datasets(self) -> list[str]:
        """The datasets that were pre-sampled: one in a run whose config did not change its training set."""
        return sorted({group.dataset for kind in ("rollouts", "verdicts") for group in self.groups(kind)
                       if group.plan == "presample"})  # fmt: skip

    def shards(self, kind: str, policy: str, dataset: str, plan: str) -> tuple[str, ...]:
        """The paths of the shards of a group; empty without one."""
        prefix = f"{kind}/{policy}/{dataset}.{plan}/"
        return tuple(path for path in self.artifacts if path.startswith(prefix))


def _digest(shards: Sequence[Artifact]) -> str | None:
    """The digest of the table in these shards, whose names need not be in key order; None if they share a key."""
    schema = str(shards[0].schema)
    rows = {shard.file: pl.scan_parquet(shard.file, glob=False).select(SCHEMAS[schema].key) for shard in shards}
    first = {file: keys.head(1).collect().rows() for file, keys in rows.items()}
    try:
        return stream_digest(sorted((file for file in first if first[file]), key=first.__getitem__), schema)
    except SchemaError:
        return None


def _paths(root: Path) -> list[str]:
    """Every table, every file with a sidecar and every file whose sidecar is all that is left."""
    left_out = ("logs",) if (root / RECORDED).is_file() else ("logs", *_LAST)
    found = set()
    for file in root.rglob("*"):
        relative = file.relative_to(root)
        if relative.parts[0] in left_out or not file.is_file():
            continue
        if file.suffix == ".sha256":
            found.add(relative.with_suffix("").as_posix())
        elif (file.suffix == ".parquet" and not file.name.startswith(".")) or sidecar(file).exists():
            found.add(relative.as_posix())
    return sorted(found)
