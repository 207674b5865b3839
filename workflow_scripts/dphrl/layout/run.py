"""The files that a configuration plans, for the rules: outputs and inputs of sampling, training and evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from dphrl.artifacts.databases import database_states
from dphrl.artifacts.tables import stream_digest
from dphrl.config.blocks.datasets import TOY, DatasetConfig
from dphrl.config.config import Config
from dphrl.layout.kinds import KINDS, fill, sliced
from dphrl.layout.names import BASE, PolicyName, Wildcards


def with_digests(**files: Any) -> dict[str, Any]:
    """Output files of a rule (each a path or a list of paths), each followed by its .sha256 file."""
    digests = {
        f"{name}_digest": [f"{path}.sha256" for path in paths] if isinstance(paths, list) else f"{paths}.sha256"
        for name, paths in files.items()
    }
    return files | digests


class Layout:
    """The files of one run, as its configuration plans them; paths begin with `results/<run>`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = f"results/{config.run}"

    def path(self, kind: str, **fields: object) -> str:
        """The path of a kind of artifact; fields that are not given stay in braces, as Snakemake's wildcards."""
        return f"{self.root}/{fill(KINDS[kind].path, fields)}"

    def manifest(self, policy: PolicyName) -> str:
        """The manifest of a policy's folder."""
        return f"{self.root}/policies/{policy}/manifest.json"

    def card(self, policy: PolicyName) -> str:
        """The model card in a policy's folder."""
        return f"{self.root}/policies/{policy}/README.md"

    def slice(self, kind: str) -> Callable[[Wildcards], str]:
        """The config slice of a kind of artifact, as a function of the wildcards of its rule."""
        part = KINDS[kind].slice
        if part is None:
            raise ValueError(f"artifacts of the kind {kind!r} have no config slice")
        return lambda wildcards: sliced(part, self.config, wildcards)

    def constraints(self) -> dict[str, str]:
        """Regular expressions for Snakemake's wildcards."""
        methods = "|".join(map(re.escape, self.config.methods))
        untrained = "|".join(map(re.escape, [BASE.method, *self.config.replay]))
        return {
            "policy": rf"{untrained}|({methods})-s\d+/step\d+",
            "dataset": "|".join(map(re.escape, self.config.datasets)),
            "plan": "presample|refine|evaluate",
            "shard": r"\d+",
            "method": methods,
            "seed": r"\d+",
            "step": r"\d+",
        }

    def policies(self) -> list[PolicyName]:
        """The evaluated policies: the base, the ones with recorded answers, the ones of each training."""
        untrained = dict.fromkeys([BASE.method, *self.config.replay])
        return [*map(PolicyName, untrained), *self.trained()]

    def trained(self) -> list[PolicyName]:
        """The evaluated policies of all trainings."""
        return self._trained(self.config.train.eval_every)

    def segments(self) -> list[PolicyName]:
        """The policies at the end of every segment of every training."""
        return self._trained(self.config.train.segment_steps)

    def _trained(self, every: int | None = None) -> list[PolicyName]:
        """The policies of all trainings after every `every` steps, and after the last one."""
        found = []
        for method, seed in product(self.config.methods, self.config.train.seeds):
            last = self.config.steps(method)
            steps = [*range(every or last, last, every or last), last]
            found += [PolicyName(method, seed, step) for step in steps]
        return found

    def shards(self, kind: str, policy: PolicyName, dataset: str, plan: str) -> list[str]:
        """All shards of the rollouts or verdicts of a plan."""
        numbers = range(getattr(self.config.sampling, plan).shards)
        return [self.path(kind, policy=policy, dataset=dataset, plan=plan, shard=number) for number in numbers]

    def plans(self) -> list[tuple[PolicyName, str, str]]:
        """Policy, dataset and plan of all samples."""
        train = self.config.train_dataset
        evaluated = product(self.policies(), self.config.evaluate.datasets, ["evaluate"])
        return [(BASE, train, "presample"), (BASE, train, "refine"), *evaluated]

    def all_shards(self) -> list[str]:
        """All shards of all rollouts and verdicts."""
        kinds = product(("rollouts", "verdicts"), self.plans())
        return [path for kind, plan in kinds for path in self.shards(kind, *plan)]

    def evaluations(self) -> list[str]:
        """The evaluations of every policy on every evaluation set."""
        pairs = product(self.policies(), self.config.evaluate.datasets)
        return [self.path("evaluation", policy=policy, dataset=dataset) for policy, dataset in pairs]

    def of_segments(self, kind: str) -> list[str]:
        """The policy, state or metrics of every segment."""
        return [self.path(kind, **end._asdict()) for end in self.segments()]

    def kept(self, kind: str) -> list[str]:
        """The policies or states of segments that are there after a finished run."""
        removed = {path for end in self._trained() for path in self.superseded(end)}
        return [path for path in self.of_segments(kind) if path not in removed]

    def removable(self) -> list[str]:
        """What the newest state of each training that is there supersedes."""
        newest = {end.training: end for end in self.segments() if Path(self.path("state", **end._asdict())).exists()}
        return [path for end in newest.values() for path in self.superseded(end)]

    def superseded(self, start: PolicyName) -> list[str]:
        """The manifests of states before that of `start`, of the same training, and of policies that are not evaluated.

        Once a segment has started from `start` no job needs them.
        """
        train, found = self.config.train, list[str]()
        for step in range(train.segment_steps, start.step, train.segment_steps) if train.keep_state == "newest" else ():
            end = start._replace(step=step)
            found += [self.path("state", **end._asdict()), *([self.manifest(end)] if step % train.eval_every else [])]
        return found

    def superseded_by(self, wildcards: Wildcards) -> list[str]:
        """`superseded` of the policy that a segment starts from."""
        first, _ = self.segment_steps(wildcards)
        return self.superseded(PolicyName(wildcards["method"], int(wildcards["seed"]), first - 1))

    def segment_timings(self) -> list[str]:
        """The timings of every segment."""
        return [self.path("timings", of=f"train/{end}") for end in self.segments()]

    def sampling_timings(self) -> list[str]:
        """The timings of every job that samples or scores."""
        return [path.replace(f"{self.root}/", f"{self.root}/timings/", 1) for path in self.all_shards()]

    def audit_inputs(self) -> list[str]:
        """The inputs of the audit up to evaluation; the rule adds the outputs of later stages."""
        config = self.config
        files = self.all_shards()
        files += [self.path(kind, dataset=name) for kind in ("prompts", "rejected", "gold") for name in config.datasets]
        files += [*self.kept("policy"), *self.kept("state"), *self.of_segments("metrics"), *self.of_segments("probes")]
        once = ["overlap", "candidates", "partition", *(["world"] if config.toy else [])]
        files += [self.path("databases", dataset=name) for name in config.datasets if self._has_files(name)]
        return [*files, *map(self.path, once), *self.evaluations(), *self.if_has_model([self.manifest(BASE)])]

    def _dataset(self, wildcards: Wildcards) -> DatasetConfig:
        return self.config.datasets[wildcards["dataset"]]

    def source(self, wildcards: Wildcards) -> str:
        """The file with a dataset's rows."""
        source = self._dataset(wildcards).source
        return f"{self.root}/toy/questions/{wildcards['dataset']}.jsonl" if source == TOY else source

    def source_name(self, wildcards: Wildcards) -> str:
        """The name of that file, which is a column of the prompts."""
        return Path(self.source(wildcards)).name

    def database_folder(self, wildcards: Wildcards) -> str | None:
        """The folder of a dataset's databases; None for a task without."""
        folder = self._dataset(wildcards).database_folder
        return f"{self.root}/toy/databases" if folder == TOY else folder

    def world(self, wildcards: Wildcards) -> str | list[str]:
        """The manifest of the toy's world, for jobs that read its databases; none for other datasets."""
        return self.path("world") if self._dataset(wildcards).database_folder == TOY else []

    def databases(self, wildcards: Wildcards, hashed: Callable[..., Any]) -> str | list[str]:
        """The table of a dataset's databases, for jobs that read them; none where they are not files of the user.

        Args:
            hashed: `get` of Snakemake's checkpoint that makes it, which raises an error until it is there.
        """
        dataset = wildcards["dataset"]
        return str(hashed(dataset=dataset).output.databases) if self._has_files(dataset) else []

    def database_states(self, wildcards: Wildcards) -> str:
        """Of a dataset with files of databases: what changes when one of them may have changed."""
        return database_states(str(self.database_folder(wildcards)))

    def database_digest(self, wildcards: Wildcards) -> str | None:
        """The content digest of the table of databases; None without one, or until it is there."""
        table = Path(self.path("databases", dataset=wildcards["dataset"]))
        if not self._has_files(wildcards["dataset"]) or not table.is_file():
            return None
        return _content_digest(table, table.stat().st_mtime_ns)

    def _has_files(self, dataset: str) -> bool:
        """Whether the databases of a dataset are files of the user."""
        return self.config.datasets[dataset].database_folder not in (None, TOY)

    def scorer(self, wildcards: Wildcards) -> str | list[str]:
        """The file of a custom scorer; none for a built-in task."""
        custom = self.config.scoring.custom.get(self._dataset(wildcards).task)
        return custom.source if custom else []

    def workers(self, wildcards: Wildcards) -> int:
        """Worker processes that judge answers of a dataset's task."""
        return self.config.scoring.of(self._dataset(wildcards).task).workers

    def sampling_inputs(self, wildcards: Wildcards) -> dict[str, Any]:
        """The inputs of sampling: a model or recorded answers, and for refinement the candidates."""
        candidates = {"candidates": self.path("candidates")} if wildcards["plan"] == "refine" else {}
        recorded = self.config.replay.get(wildcards["policy"], {}).get(wildcards["dataset"])
        if recorded is None:
            return {**candidates, "policy": self.manifest(PolicyName.parse(wildcards["policy"]))}
        return {**candidates, "recorded": recorded, "policy": self.if_has_model(self.manifest(BASE))}

    def shard_count(self, wildcards: Wildcards) -> int:
        """Jobs that a plan's prompts are spread over."""
        return int(getattr(self.config.sampling, wildcards["plan"]).shards)

    def gpus(self, number: int) -> int:
        """GPUs of a job that works on so many."""
        return number if self.config.hardware.gpu_gib else 0

    def sampling_gpus(self, wildcards: Wildcards) -> int:
        """GPUs of a job that samples; none for recorded answers."""
        recorded = wildcards["dataset"] in self.config.replay.get(wildcards["policy"], {})
        return 0 if recorded else self.gpus(self.config.hardware.tensor_parallel)

    def policy_plan_and_shard(self, wildcards: Wildcards) -> list[str | int]:
        """The policy, the plan and the shard of a job that samples."""
        return [wildcards["policy"], wildcards["plan"], int(wildcards["shard"])]

    def evaluation_inputs(self, kind: str) -> Callable[[Wildcards], list[str]]:
        """The rollouts or verdicts that an evaluation reads, as a function of its wildcards."""
        return lambda names: self.shards(kind, PolicyName.parse(names["policy"]), names["dataset"], "evaluate")

    def if_has_model(self, files: Any) -> Any:
        """These files; none if a run has only recorded answers."""
        return files if self.config.has_model else []

    def training_seed(self, wildcards: Wildcards) -> int:
        """The seed of a training."""
        return int(wildcards["seed"])

    def segment_steps(self, wildcards: Wildcards) -> list[int]:
        """First and last step of a segment."""
        last = int(wildcards["step"])
        return [max(0, last - self.config.train.segment_steps) + 1, last]

    def start_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        """Policy and state that a segment starts from: the base policy, or those at the end of the previous segment."""
        step = self.segment_steps(wildcards)[0] - 1
        if not step:
            return {"policy": self.manifest(BASE)}
        start = PolicyName(wildcards["method"], int(wildcards["seed"]), step)
        return {"policy": self.manifest(start), "state": self.path("state", **start._asdict())}

    def method_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        """More inputs of some methods: the stored responses to rehearse, the base policy as a reference."""
        method = self.config.methods[wildcards["method"]]
        stored = {"reference": self.path("tensors"), "index": self.path("index")}
        base = {"base": self.manifest(BASE)}
        return (stored if method.rehearses else {}) | (base if method.needs_base else {})

    def presamples(self) -> list[str]:
        """The base policy's samples of the training prompts, with which a training's probes compare; none without."""
        train = self.config.train_dataset
        return self.shards("rollouts", BASE, train, "presample") if self.config.train.probe.prompts else []


@cache
def _content_digest(table: Path, changed_ns: int) -> str:
    """The content digest of a table of databases, which all jobs of its dataset ask for."""
    return stream_digest([table], "databases")
