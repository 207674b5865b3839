"""A small run folder: two datasets, tiny Llamas as base and trained policy, most kinds of table."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from tiny_models import EOS, TOKENS, write_tiny_policy

from dphrl.config import slices
from dphrl.config.load import load_config
from dphrl.data.partition import candidates, refine
from dphrl.evaluation.per_prompt import classes_shown, evaluate
from dphrl.policy.logprobs import LogProbs, load_model
from dphrl.report.audit_files import AUDITED
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import sha256_file, visible_files, write_text
from dphrl.store.manifest import manifest_digest, read_manifest, write_manifest, write_sums
from dphrl.store.parquet import ADDED, read_footer, read_table, table_digest, write_table
from dphrl.store.stage import library_version
from dphrl.training.reference import reference_rows, save_tensors, tensorise

BASE, TRAINED = "base", "grpo-s1/step2"
CANDIDATES, FINAL = "draws/main/partition/candidates.parquet", "draws/main/partition/final.parquet"
TENSORS, INDEX = "draws/main/reference/responses.safetensors", "draws/main/reference/index.parquet"
# A second set of stored responses, which has a pre-sample of each question too.
FURTHER = "draws/main/reference-right2/index.parquet"
# Of the tokenizer's tokens the model knows padding, the end and eight letters.
VOCABULARY = 10
_DATASET = {"task": "math", "source": "questions.jsonl"}
# What the run would be made from.
CONFIG = load_config(
    {
        "run": "run",
        "toy": {},
        "datasets": {"train": _DATASET, "eval": _DATASET},
        "train_dataset": "train",
        "sampling": {"presample": {"n": 2}, "evaluate": {"n": 2, "greedy": True}},
        "partition": {"pef_min_correct": 2},
        "methods": {
            "grpo": {"rollout_on": "all"},
            "dph_f": {"divergence": "forward_kl", "rehearse": "right", "rows_per_question": 2},
        },
        "evaluate": {"datasets": ["eval"], "k": [1, 2]},
    }
)
_OUTSIDE = "questions.jsonl"


@dataclass(frozen=True)
class SmallRun:
    """A run folder and how its tables are read and written again."""

    root: Path

    def read(self, path: str) -> pl.DataFrame:
        """The rows of a table."""
        return pl.read_parquet(self.root / path)

    def rewrite(self, path: str, frame: pl.DataFrame) -> None:
        """Other rows under the same footer, as if the job had a fault: digest and seal fit."""
        self._write(path, frame, self.footer(path))

    def _write(self, path: str, frame: pl.DataFrame, footer: dict[str, Any]) -> None:
        table, rest = self.root / path, {name: value for name, value in footer.items() if name not in ADDED}
        files = [table.with_name(name) for name in footer.get("files", {})]
        write_table([frame], footer["schema"], table, rest, files)

    def footer(self, path: str) -> dict[str, Any]:
        """The footer of a table."""
        return read_footer(self.root / path)

    def change_footer(self, path: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the footer of a table in place, under a seal that fits."""
        footer = self.footer(path)
        change(footer)
        self._write(path, self.read(path), footer)

    def finish(self) -> None:
        """The timings and the list of a finished run, as the rule `audit` leaves them."""
        timings = SCHEMAS["timings"].frame([("audit", "total", 1.0, None, None, 1.0)])
        write_table(timings, "timings", self.root / AUDITED, {"stage": "audit", **written_as(AUDITED)})
        write_sums(self.root, list(visible_files(self.root)), {})


def written_as(path: str) -> dict[str, str]:
    """The part of a footer that names the place of the file and the project."""
    return {"path": path, "made_by": f"dphrl {library_version('dphrl')}"}


class _Builder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def footer(
        self, path: str, stage: str, config: dict[str, Any] | None = None, **inputs: str | list[str]
    ) -> dict[str, Any]:
        """The footer of the file at a path; inputs are paths, and `_OUTSIDE` a file from outside of the run."""
        read = {name: [paths] if isinstance(paths, str) else paths for name, paths in inputs.items()}
        return written_as(path) | {
            "stage": stage,
            "config": config or {},
            "code": "c0de",
            "inputs": {name: {"paths": paths, "digest": self.digest(*paths)} for name, paths in read.items()},
            "libraries": {},
            "seed": 1 if stage in ("train_segment", "sample") else None,
        }

    def table(self, rows: Any, schema: str, path: str, stage: str, **facts: Any) -> None:
        """Write rows, as a frame or as dicts in which a missing column is null."""
        frame = rows if isinstance(rows, pl.DataFrame) else SCHEMAS[schema].frame(rows)
        write_table(frame, schema, self.root / path, self.footer(path, stage, **facts))

    def read(self, schema: str, *paths: str) -> pl.DataFrame:
        return read_table([self.root / path for path in paths], schema)

    def digest(self, *paths: str) -> str:
        if paths[0] == _OUTSIDE:
            return "0" * 64
        if paths[0].endswith(".json"):
            return manifest_digest(read_manifest(self.root / paths[0]))
        if paths[0].endswith(".safetensors"):
            return sha256_file(self.root / paths[0])
        schema = read_footer(self.root / paths[0])["schema"]
        return table_digest([self.root / path for path in paths], schema)

    def policy(self, name: str, seed: int, **inputs: str | list[str]) -> None:
        folder = self.root / "policies" / name
        write_tiny_policy(folder, vocabulary=VOCABULARY, seed=seed, hidden_size=8, num_hidden_layers=1)
        stage = "train_segment" if inputs else "train_base"
        path = f"policies/{name}.json"
        write_manifest(self.root / path, self.footer(path, stage, **inputs))

    def dataset(self, name: str, prompts: int) -> None:
        asked = {"task": "math", "messages": "[]", "thought_open": False, "source": "toy"}
        rows = [
            {"prompt_id": f"{name}{i}", "source_index": i, "prompt_token_ids": [2 + i % 8, 3], **asked}
            for i in range(prompts)
        ]
        read = {"policy": "policies/base.json", "source": _OUTSIDE}
        config = slices.prompts(CONFIG, name)
        self.table(rows, "prompts", f"prompts/{name}.parquet", "prepare_prompts", config=config, **read)
        rejected = [{"source_index": 99, "reason": "malformed", "detail": "no answer"}]
        self.table(rejected, "rejected", f"prompts/{name}.rejected.parquet", "prepare_prompts", **read)
        truth = {"ground_truth": "{}", "verdict": "correct", "kept": True}
        gold = [{"prompt_id": row["prompt_id"], **truth} for row in rows]
        inputs = {"prompts": f"prompts/{name}.parquet", "rejected": f"prompts/{name}.rejected.parquet"}
        config = slices.gold(CONFIG, name)
        self.table(gold, "gold", f"gold/{name}.parquet", "audit_gold", config=config, source=_OUTSIDE, **inputs)

    def samples(
        self, policy: str, dataset: str, plan: str, prompts: Sequence[str], indices: Sequence[int], shards: int
    ) -> dict[str, list[str]]:
        """Samples and verdicts; correct are those that end with the end token. Returns the paths of both."""
        inputs = {"prompts": f"prompts/{dataset}.parquet", "policy": f"policies/{policy}.json"}
        if plan == "refine":
            inputs["partition"] = CANDIDATES
        config = slices.sample(CONFIG, policy, dataset, plan)
        place = f"{policy}/{dataset}.evaluate" if plan == "evaluate" else f"{dataset}.{plan}"
        above = "" if plan == "evaluate" else "draws/main/"
        paths = {k: [f"{above}{k}/{place}/{i}.parquet" for i in range(shards)] for k in ("rollouts", "verdicts")}
        size = -(-len(prompts) // shards)
        for shard, (drawn, judged) in enumerate(zip(*paths.values(), strict=True)):
            rollouts, verdicts = [], []
            for prompt, index in product(sorted(prompts)[shard * size : (shard + 1) * size], indices):
                ends = not prompt.endswith(("1", "4"))
                tokens = [2 + (index + 3) % 8, 4, EOS if ends else 5]
                sample = {"token_ids": tokens, "text": "".join(TOKENS[i] for i in tokens if i != EOS)}
                sample |= {"finish_reason": "stop" if ends else "length", "sampler_logprobs": [-1.0] * len(tokens)}
                key = {"prompt_id": prompt, "sample_index": index}
                rollouts.append({**key, "seed": 1, **sample})
                verdict = "correct" if ends else "wrong"
                verdicts.append({**key, "verdict": verdict, "correct": ends, "reward": float(ends)})
            self.table(rollouts, "rollouts", drawn, "sample", config=config, **inputs)
            self.table(verdicts, "verdicts", judged, "score", rollouts=drawn, gold=f"gold/{dataset}.parquet")
        return paths


def build(root: Path) -> None:
    """Write the whole run."""
    run = _Builder(root)
    run.policy(BASE, seed=1)
    run.dataset("train", 6)
    run.dataset("eval", 3)
    prompts, gold = (run.read(name, f"{name}/train.parquet") for name in ("prompts", "gold"))
    drawn = run.samples(BASE, "train", "presample", prompts["prompt_id"].to_list(), [0, 1], shards=2)
    divided = candidates(gold, run.read("verdicts", *drawn["verdicts"]), 2, CONFIG.partition)
    inputs = {"gold": "gold/train.parquet", "verdicts": drawn["verdicts"]}
    run.table(divided, "partition", CANDIDATES, "find_candidates", **inputs)
    near_perfect = divided.filter(subset="pef")["prompt_id"].to_list()
    refined = run.samples(BASE, "train", "refine", near_perfect, [0], shards=1)
    final = refine(divided, run.read("verdicts", *refined["verdicts"]), CONFIG.partition)
    run.table(final, "partition", FINAL, "refine", partition=CANDIDATES, verdicts=refined["verdicts"])

    of_training = {"partition": FINAL, "prompts": "prompts/train.parquet", "policy": "policies/base.json"}
    policy = LogProbs(load_model(root / "policies/base", "float32"))
    for (stored, method), index in zip(CONFIG.stored.items(), (INDEX, FURTHER), strict=True):
        presampled = {"presamples": drawn["rollouts"], "verdicts": drawn["verdicts"]} if index == FURTHER else {}
        samples = {"rollouts": refined["rollouts"], **presampled}
        tables = [run.read("verdicts" if name == "verdicts" else "rollouts", *samples[name]) for name in samples]
        chosen = {"rehearse": method.rehearse, "most": method.rows_per_question}
        rows = reference_rows(final, prompts, *tables, **chosen)
        tensors = (root / index).with_name("responses.safetensors")
        (frame,) = save_tensors(tensorise([rows], policy, 64, top_k=3), tensors)
        footer = run.footer(index, "tensorise", slices.reference(CONFIG, stored), **of_training, **samples)
        write_table([frame], "reference_index", root / index, footer, [tensors])

    inputs = {**of_training, "gold": "gold/train.parquet", "reference": TENSORS}
    metrics = pl.DataFrame({"step": [1, 2], "metric": "loss", "value": [1.0, 0.5]})
    run.table(metrics, "metrics", f"train/{TRAINED}/metrics.parquet", "train_segment", **inputs)
    probes = [(0, "p0", 0, "exp", "7", "7", True, None)]
    run.table(probes, "probes", f"train/{TRAINED}/probes.parquet", "train_segment", **inputs)
    state = f"states/{TRAINED}.json"
    write_text(root / f"states/{TRAINED}/rng.json", "{}")
    write_manifest(root / state, run.footer(state, "train_segment", **inputs))
    run.policy(TRAINED, seed=2, **inputs)

    asked = run.read("prompts", "prompts/eval.parquet")["prompt_id"].to_list()
    for name in (BASE, TRAINED):
        parts = run.samples(name, "eval", "evaluate", asked, [-1, 0, 1], shards=2)
        frames = [run.read(kind, *paths) for kind, paths in parts.items()]
        evaluated = evaluate(*frames, [], classes_shown(frames[1:]))
        nothing = pl.lit(None, pl.String)
        rows = evaluated.with_columns(cluster=nothing, level=nothing)
        of_eval = {kind: f"{kind}/eval.parquet" for kind in ("gold", "prompts")}
        run.table(rows, "evaluation", f"evaluation/{name}/eval.parquet", "evaluate_policy", **of_eval, **parts)
    training = metrics.with_columns(method=pl.lit("grpo"), seed=1)
    source = {"grpo/1/0": f"train/{TRAINED}/metrics.parquet"}
    run.table(training, "training", "tables/training.parquet", "collect_training", **source)
    write_text(root / "tables/headline.csv", "| nothing |\n")
    write_text(root / "figures/training.json", json.dumps({"mark": "line"}))
    timings = SCHEMAS["timings"].frame([("refine", "total", 1.0, None, None, 1.0)])
    path = f"timings/{FINAL}"
    write_table(timings, "timings", root / path, {"stage": "refine", **written_as(path)})
