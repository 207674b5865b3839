"""The files that a configuration plans, and facts about a job that follow from it and the job's wildcards."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

from dphrl.config.blocks.data import TOY, DatasetConfig
from dphrl.config.config import Config
from dphrl.hub import OF_MODEL, HubName, data_name, model_name
from dphrl.store.kinds import KINDS, fill
from dphrl.store.parquet import read_footer
from dphrl.store.policy_names import BASE, DRAW, START, PolicyName


class Layout:
    """The files of one run, as its configuration plans them; paths begin with `results/<run>`.

    Methods with `wildcards` are functions for rules; without a wildcard `dataset`, they are about the training set.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = f"results/{config.run}"

    def path(self, kind: str, **fields: object) -> str:
        """The path of a kind of artifact; fields that are not given stay in braces, as Snakemake's wildcards."""
        return f"{self.root}/{fill(KINDS[kind].path, fields)}"

    def constraints(self) -> dict[str, str]:
        """Regular expressions for Snakemake's wildcards."""
        methods = "|".join(map(re.escape, self.config.methods)) or "(?!)"
        mixtures = [*map(str, self.mixtures())]
        named = [BASE.method, *self.config.replay, *map(str, self.checkpoints()), *mixtures]
        untrained = "|".join(map(re.escape, named))
        return {
            "policy": rf"({untrained}|({methods})-s\d+/step\d+)(/t\d+\.\d+)?",
            "mixture": "|".join(map(re.escape, mixtures)) or "(?!)",
            "model": "|".join(map(re.escape, map(str, self.models()))) or "(?!)",
            "hub": "|".join(map(re.escape, self.hub_names())) or "(?!)",
            "dataset": "|".join(map(re.escape, self.config.datasets)),
            "draw": rf"{DRAW}|s\d+",
            "plan": "presample|refine",
            "stored": "|".join(map(re.escape, self.config.stored)),
            "shard": r"\d+",
            "method": methods,
            "seed": r"\d+",
            "step": r"\d+",
        }

    def policies(self) -> list[PolicyName]:
        """The evaluated policies: base, policies with recorded answers, checkpoints, those of trainings, mixtures."""
        untrained = dict.fromkeys([BASE.method, *self.config.replay])
        return [*map(PolicyName, untrained), *self.checkpoints(), *self.trained(), *self.mixtures()]

    def mixtures(self) -> dict[PolicyName, tuple[PolicyName, float]]:
        """Weights between the base and a policy at the end, or a checkpoint: that policy and its share."""
        ends, shares = [*self.checkpoints(), *self._trained()], self.config.evaluate.mixtures
        return {policy.mixed(share): (policy, share) for policy in ends for share in shares}

    def mixture(self, wildcards: Mapping[str, str]) -> tuple[PolicyName, float]:
        """The policy of a mixture, and its share."""
        return next(mixed for name, mixed in self.mixtures().items() if str(name) == wildcards["mixture"])

    def checkpoints(self) -> dict[PolicyName, str]:
        """The folder of each model that the run evaluates and does not train (`checkpoints`)."""
        folders = {}
        for name, places in self.config.checkpoints.items():
            if isinstance(places, str):
                folders[PolicyName(name)] = places
            else:
                folders |= {PolicyName(name, seed): place for seed, place in enumerate(places, 1)}
        return folders

    def models(self) -> dict[PolicyName, str]:
        """The folder of each model that the run does not make: checkpoints, and the base or its supervised start."""
        policy = self.config.policy
        name = START if policy.supervised else BASE
        return ({} if policy.base is None else {name: policy.base}) | self.checkpoints()

    def trained(self) -> list[PolicyName]:
        """The evaluated policies of all trainings."""
        return self._trained(self.config.train.evaluated)

    def segments(self) -> list[PolicyName]:
        """The policies at the end of every segment of every training."""
        every = self.config.train.segment_steps
        return self._trained(lambda last: [*range(every, last, every), last])

    def _trained(self, steps: Callable[[int], list[int]] = lambda last: [last]) -> list[PolicyName]:
        """The policies of all trainings after these steps, a function of the last one."""
        return [
            PolicyName(method, seed, step)
            for method in self.config.methods
            for seed, step in product(self.config.seeds(method), steps(self.config.steps(method)))
        ]

    def hotter(self) -> dict[str, tuple[PolicyName, float]]:
        """Checkpoints and the ends of trainings at each higher temperature, by their names in paths."""
        drawn, temperatures = [*self.checkpoints(), *self._trained()], self.config.evaluate.hotter
        return {f"{policy}/t{temperature}": (policy, temperature) for policy in drawn for temperature in temperatures}

    def evaluations(self) -> list[list[object]]:
        """Method, seed, step and dataset of each evaluation, and the temperature of a policy that is drawn hotter."""
        sets, hotter = self.config.evaluate.datasets, self.hotter().values()
        labels: list[list[object]] = [[*policy, name] for policy in self.policies() for name in sets]
        return labels + [[*policy, name, temperature] for policy, temperature in hotter for name in sets]

    def sampled_weights(self, wildcards: Mapping[str, str]) -> str:
        """The folder of the policy that a job draws from, at whatever temperature."""
        return f"{self.root}/policies/{wildcards['policy'].partition('/t')[0]}"

    def mixed_weights(self, wildcards: Mapping[str, str]) -> str:
        """The folder of the policy in a mixture."""
        return f"{self.root}/policies/{self.mixture(wildcards)[0]}"

    def draws(self) -> list[str]:
        """The draws of stage 1: `main`, and one for each training seed with its own draw; none without training set."""
        if not self.config.train_dataset:
            return []
        return list(dict.fromkeys([DRAW, *(self.draw(end.method, end.seed) for end in self.trained())]))

    def draw(self, method: str, seed: int) -> str:
        """The draw that a training uses: of its seed, or of the run's seed (`train.draws`).

        A method that rolls out all prompts needs no draw of its own, unless samples decide which prompts are dropped.
        """
        config = self.config
        dropped = config.partition.drop_all_wrong or config.partition.on_reject == "discard"
        per_seed = config.train.draws == "per_seed" and not config.replays_training_set
        own = per_seed and seed != config.train.seeds[0] and (config.methods[method].needs_draw or dropped)
        return f"s{seed}" if own else DRAW

    def draw_of(self, wildcards: Mapping[str, str]) -> str:
        """The draw of a job of a training."""
        return self.draw(wildcards["method"], int(wildcards["seed"]))

    def kept_states(self) -> list[PolicyName]:
        """The segments whose optimizer state a finished run keeps (`train.keep_state`)."""
        return self.segments() if self.config.train.keep_state == "all" else self._trained()

    def superseded(self, end: PolicyName) -> list[str]:
        """Manifests that no job needs once a segment has started from `end`: older states, unevaluated policies."""
        train = self.config.train
        older = range(train.segment_steps, end.step, train.segment_steps) if train.keep_state == "newest" else ()
        ends = [end._replace(step=step) for step in older]
        evaluated = train.evaluated(self.config.steps(end.method))
        unevaluated = [policy for policy in ends if policy.step not in evaluated]
        states = [self._of_end("state", policy) for policy in ends]
        return states + [self._of_end("policy", policy) for policy in unevaluated]

    def superseded_at_the_end(self) -> list[str]:
        """The manifests that the newest state of each training supersedes."""
        newest = {end.training: end for end in self.segments() if Path(self._of_end("state", end)).exists()}
        return [path for end in newest.values() for path in self.superseded(end)]

    def _of_end(self, kind: str, end: PolicyName) -> str:
        return self.path(kind, **end._asdict())

    def first_and_last_step(self, wildcards: Mapping[str, str]) -> list[int]:
        """First and last step of a segment."""
        last = int(wildcards["step"])
        return [max(0, last - self.config.train.segment_steps) + 1, last]

    def step_before(self, wildcards: Mapping[str, str]) -> int:
        """The step that a segment starts from: 0 for the first one, which starts from the base policy."""
        return self.first_and_last_step(wildcards)[0] - 1

    def metrics_before(self, wildcards: Mapping[str, str]) -> list[str]:
        """The metrics of all segments before, where they can end the training (`train.stop`)."""
        every, stop = self.config.train.segment_steps, self.config.train.stop
        ends = range(every, self.step_before(wildcards) + 1, every) if stop.coverage_below is not None else ()
        return [self._of_end("metrics", PolicyName(wildcards["method"], int(wildcards["seed"]), end)) for end in ends]

    def superseded_before(self, wildcards: Mapping[str, str]) -> list[str]:
        """The manifests that a segment supersedes when it starts."""
        return self.superseded(PolicyName(wildcards["method"], int(wildcards["seed"]), self.step_before(wildcards)))

    def hub_names(self) -> dict[str, HubName]:
        """The names of the hub, each by the name of its listing: `model.<policy>` or `data.<dataset>`."""
        models = {f"model.{str(policy).partition('/')[0]}": model_name(text) for policy, text in self.models().items()}
        data = {f"data.{name}": data_name(dataset.source) for name, dataset in self.config.datasets.items()}
        if supervised := self.config.policy.supervised:
            data["supervised"] = data_name(supervised.source)
        return {name: hub_name for name, hub_name in {**models, **data}.items() if hub_name}

    def files_of_model(self, wildcards: Mapping[str, str]) -> list[str]:
        """The files that a run takes of a model's folder, without subfolders; for the hub its listing."""
        name = f"model.{wildcards['model'].partition('/')[0]}"
        if name in self.hub_names():
            return [self.path("hub", of=name)]
        folder = Path(self.models()[PolicyName.parse(wildcards["model"])])
        files = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
        return sorted(str(file) for file in files if any(map(file.match, OF_MODEL)))

    def dataset(self, wildcards: Mapping[str, str]) -> DatasetConfig:
        """The dataset of a job."""
        return self.config.datasets[wildcards.get("dataset", self.config.train_dataset)]

    def source(self, wildcards: Mapping[str, str]) -> str:
        """The file with a dataset's rows; of the hub its listing."""
        source = self.dataset(wildcards).source
        if data_name(source):
            return self.path("hub", of=f"data.{wildcards['dataset']}")
        return f"{self.root}/toy/questions/{wildcards['dataset']}.jsonl" if source == TOY else source

    def supervised_source(self) -> str | list[str]:
        """The file with the rows of the supervised start, of the hub its listing; none without a start."""
        supervised = self.config.policy.supervised
        if supervised is None:
            return []
        return self.path("hub", of="supervised") if data_name(supervised.source) else supervised.source

    def source_name(self, wildcards: Mapping[str, str]) -> str:
        """The name of the file with a dataset's rows."""
        hub_name = data_name(self.dataset(wildcards).source)
        return Path(hub_name.file if hub_name else self.source(wildcards)).name

    def has_toy_databases(self, wildcards: Mapping[str, str]) -> bool:
        """Whether the queries of a dataset run on the databases of the embedded world."""
        return self.dataset(wildcards).database_folder == TOY

    def has_own_databases(self, wildcards: Mapping[str, str]) -> bool:
        """Whether the queries of a dataset run on databases that are files of the user."""
        return self.dataset(wildcards).database_folder not in (None, TOY)

    def database_folder(self, wildcards: Mapping[str, str]) -> str | None:
        """The folder of a dataset's databases; None for a task without."""
        folder = self.dataset(wildcards).database_folder
        return f"{self.root}/toy/databases" if folder == TOY else folder

    def database_digest(self, wildcards: Mapping[str, str]) -> str | None:
        """The content digest of the table of databases; None without one, or until it is there."""
        name = wildcards.get("dataset", self.config.train_dataset)
        table = Path(self.path("databases", dataset=name))
        return read_footer(table)["digest"] if self.has_own_databases(wildcards) and table.is_file() else None

    def given_partition(self, wildcards: Mapping[str, str]) -> list[str]:
        """Of a division made elsewhere, the source of the training set and the files of D_pef and D_exp."""
        files = self.config.partition.given
        return [self.source({"dataset": self.config.train_dataset}), files["pef"], files["exp"]] if files else []

    def scorer(self, wildcards: Mapping[str, str]) -> str | list[str]:
        """The file of a custom scorer; none for a built-in task."""
        custom = self.config.scoring.custom.get(self.dataset(wildcards).task)
        return custom.source if custom else []

    def workers(self, wildcards: Mapping[str, str]) -> int:
        """Processes that judge answers of a dataset's task."""
        return self.config.scoring.of(self.dataset(wildcards).task).workers

    def recorded(self, wildcards: Mapping[str, str]) -> str | list[str]:
        """The file of recorded answers that stand for a policy's samples; none where they are drawn."""
        policy = wildcards.get("policy", BASE.method)
        return self.config.replay.get(policy, {}).get(wildcards["dataset"], [])

    def gpus(self, number: int) -> int:
        """GPUs of a job that works on so many; none where jobs ask for none (`hardware.gpu_gib: null`)."""
        return number if self.config.hardware.gpu_gib else 0

    def sampling_gpus(self, wildcards: Mapping[str, str]) -> int:
        """GPUs of a job that samples; none for recorded answers."""
        return 0 if self.recorded(wildcards) else self.gpus(self.config.hardware.tensor_parallel)
