"""The artifacts of a run folder, with the results of the checks on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict

from dphrl.artifacts.files import sha256_file
from dphrl.artifacts.manifest import SUMS, is_temporary
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import table_digest
from dphrl.layout.folder import is_of_version_0_4
from dphrl.layout.kinds import KINDS, is_known, kind_of, schema_of
from dphrl.layout.names import BASE
from dphrl.pages.visible import visible

RECORDED = KINDS["audit"].path
MISSING = "missing"
# Folders of logs that jobs and trackers write for people.
_LEFT_OUT = ("logs", "tracking")
# These differ between equal runs or are written during or after the rule `audit`: checked only in a finished run.
_LAST = ("audit", "report", "timings", SUMS)
# Folders in which people keep nothing: another file there is one that an earlier config left behind, or damage.
_OURS = (
    *("policies", "states", "train", "cards", "toy", "draws", "rollouts", "verdicts"),
    *("gold", "prompts", "evaluation", "databases"),
)
_SHOWN_ROWS = 3
RERUN = "Run snakemake again."
# The end of a job's error, which is left out: a failed check states the remedy itself.
_REMEDY = "; delete it and run snakemake again"
# Without its name snakemake makes no intermediate file again.
NAME_IT = "Name it as a target of snakemake."

FindRows = Callable[..., pl.DataFrame]
Result = TypeVar("Result")


class Drawn(NamedTuple):
    """Which samples: of a draw of stage 1, or for an evaluation (no draw)."""

    draw: str | None
    policy: str
    dataset: str
    plan: str


class NoRunError(ValueError):
    """A folder is not the folder of a run."""


@dataclass
class Artifact:
    """One file and the checks on it.

    Attributes:
        path: relative to the run folder, with "/".
        sha256: of the bytes on disk; `MISSING` without a file.
        digest: content digest of a table, manifest digest of a manifest, otherwise None.
        hashed: the sha256 of each file that was read for the checks.
        sound: the content was read and agrees with the footer; checks that need the content skip other artifacts.
    """

    path: str
    file: Path
    sha256: str = MISSING
    schema: str | None = None
    rows: int | None = None
    digest: str | None = None
    hashed: dict[Path, str] = field(default_factory=dict)
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

    def hash(self, file: Path) -> str:
        """The sha256 of a file's bytes, which is kept."""
        self.hashed[file] = sha256_file(file)
        return self.hashed[file]

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
    text = str(error).replace(str(artifact.file), artifact.path).strip().removesuffix(_REMEDY)
    return text.splitlines()[0] if text else type(error).__name__


def check_rows(
    artifact: Artifact, parts: Iterable[Sequence[pl.DataFrame]], checks: Mapping[str, FindRows], remedy: str = ""
) -> bool:
    """Check that some tables hold no wrong rows, in one pass; a failed check names how many and the first few.

    Args:
        artifact: where the checks are counted.
        parts: the tables, a part of each at a time.
        checks: functions that find wrong rows in a part, by the fault of these rows.
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


class Recorded(BaseModel):
    """The config in the footer of the table of the audit.

    Attributes:
        figures: the name of the table that each figure draws. Figures come without footers.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    figures: dict[str, str]


class Run:
    """The artifacts of a run folder by their path.

    Args:
        root: the folder.
        superseded: paths of manifests that will be removed with their folders; they are left out.

    Raises:
        NoRunError: no such folder, or nothing in it that this workflow wrote.
    """

    def __init__(self, root: Path, superseded: Iterable[str] = ()) -> None:
        if not root.is_dir():
            raise NoRunError(f"{root}: no such folder; name the folder of a run, e.g. results/demo")
        if is_of_version_0_4(root):
            raise NoRunError(f"{root} is a run of version 0.4, which `git checkout v0.4.0` reads")
        self.root = root
        removed = set(map(Path, superseded))
        files = {path: root / path for path in _paths(root)}
        self.artifacts = {path: Artifact(path, file) for path, file in files.items() if file not in removed}
        if not any(map(is_known, self.artifacts)):
            raise NoRunError(f"{root}: no artifact of this workflow in it; name the folder of a run, e.g. results/demo")
        self._digests: dict[tuple[str, ...], str | None] = {}

    def get(self, path: str) -> Artifact | None:
        """The artifact at `path`, sound or not."""
        return self.artifacts.get(path)

    def scan(self, paths: str | Iterable[str]) -> pl.LazyFrame | None:
        """The rows of a table or of its shards; None if one is missing or not sound."""
        artifacts = [self.artifacts.get(path) for path in ([paths] if isinstance(paths, str) else paths)]
        sound = [artifact.file for artifact in artifacts if artifact is not None and artifact.sound]
        return pl.scan_parquet(sound, glob=False) if sound and len(sound) == len(artifacts) else None

    def digest(self, paths: tuple[str, ...]) -> str | None:
        """The digest that a stage records when it reads these; None if one is missing or not sound."""
        artifacts = [self.artifacts[path] for path in paths if path in self.artifacts]
        if len(artifacts) < len(paths) or not all(artifact.sound for artifact in artifacts):
            return None
        if len(artifacts) == 1:
            return artifacts[0].digest or artifacts[0].sha256
        if paths not in self._digests:
            try:
                digest = table_digest([artifact.file for artifact in artifacts], str(artifacts[0].schema))
            except SchemaError:
                # A check already failed for each: a table among other files, or shards with a common key.
                digest = None
            self._digests[paths] = digest
        return self._digests[paths]

    @property
    def figures(self) -> dict[str, str]:
        """The table of each figure, as the rule `audit` recorded it; empty before that rule."""
        audit = self.get(RECORDED)
        tables: dict[str, str] = audit.footer["config"]["figures"] if audit is not None and audit.sound else {}
        return tables

    @property
    def made_by(self) -> Counter[str]:
        """Numbers of jobs by version and commit of this project, from the footers of their timings."""
        timings = (
            artifact for path, artifact in self.artifacts.items() if artifact.sound and schema_of(path) == "timings"
        )
        return Counter(str(artifact.footer["made_by"]) for artifact in timings if "made_by" in artifact.footer)

    def samples(self, kind: str) -> dict[Drawn, dict[int, Artifact]]:
        """The shards of "rollouts" or "verdicts" by their number, for each draw, policy, dataset and plan."""
        samples: dict[Drawn, dict[int, Artifact]] = {}
        for path, artifact in self.artifacts.items():
            kind_and_fields = kind_of(path)
            if kind_and_fields is not None and kind_and_fields[0].name in (kind, f"drawn_{kind}"):
                drawn = Drawn(
                    kind_and_fields[1].get("draw"),
                    *(kind_and_fields[1][name] for name in ("policy", "dataset", "plan")),
                )
                samples.setdefault(drawn, {})[int(kind_and_fields[1]["shard"])] = artifact
        return samples

    @cached_property
    def draws(self) -> list[str]:
        """The draws of stage 1."""
        kinds = filter(None, map(kind_of, self.artifacts))
        return sorted({fields["draw"] for _, fields in kinds if "draw" in fields})

    @cached_property
    def seed(self) -> int | None:
        """The seed of the configuration, as most footers name it that should; None without any."""
        seeds_and_kinds = ((artifact.footer.get("seed"), kind_of(path)) for path, artifact in self.artifacts.items())
        seeds = Counter(
            seed for seed, kind in seeds_and_kinds if seed is not None and kind and kind[0].seed == "config"
        )
        return next((seed for seed, _ in seeds.most_common(1)), None)

    def hashed(self) -> dict[Path, str]:
        """The sha256 of every file that was read for the checks."""
        return {file: sha256 for artifact in self.artifacts.values() for file, sha256 in artifact.hashed.items()}

    @cached_property
    def train_datasets(self) -> list[str]:
        """The datasets with samples of stage 1: one in a run whose config did not change its training set."""
        samples = self.samples("rollouts") | self.samples("verdicts")
        return sorted({drawn.dataset for drawn in samples if drawn.plan != "evaluate"})

    @property
    def train_dataset(self) -> str | None:
        """The training set: the dataset with samples of stage 1. None for no such dataset or several."""
        return self.train_datasets[0] if len(self.train_datasets) == 1 else None

    def scan_refinement(self, kind: str, draw: str) -> pl.LazyFrame | None:
        """The "rollouts" or "verdicts" of the refinement of a draw; None if a shard is not sound, or without any."""
        refined = Drawn(draw, BASE.method, str(self.train_dataset), "refine")
        return self.scan(shard.path for shard in self.samples(kind).get(refined, {}).values())


def _paths(root: Path) -> list[str]:
    """Every table, every other file that a rule writes, and files that no rule writes among them.

    Files in the folder of a manifest belong to the manifest, which may be missing.
    """
    left_out = _LEFT_OUT if any((root / file).is_file() for file in (RECORDED, SUMS)) else (*_LEFT_OUT, *_LAST)
    paths = set()
    for file in root.rglob("*"):
        path = file.relative_to(root)
        if path.parts[0] in left_out or not file.is_file() or any(map(is_temporary, path.parts)):
            continue
        manifest = manifest_above(path)
        if manifest is not None:
            paths.add(manifest)
        elif is_known(path.as_posix()) or (
            not file.name.startswith(".") and (file.suffix == ".parquet" or path.parts[0] in _OURS)
        ):
            paths.add(path.as_posix())
    return sorted(paths)


def is_removable(path: str) -> bool:
    """Whether a path is a manifest of a policy or a state, which a job may remove (`Layout.superseded`)."""
    kind_and_fields = kind_of(path)
    return kind_and_fields is not None and kind_and_fields[0].name in ("policy", "state")


def manifest_above(path: Path) -> str | None:
    """The manifest whose folder holds a file; None for a file outside of such folders."""
    manifests = (f"{folder.as_posix()}.json" for folder in path.parents)
    return next((manifest for manifest in manifests if schema_of(manifest) == "manifest"), None)
