"""The example for TRL: its gradient is this project's, and another setting changes it. Needs `make trl`."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import write_tiny_policy
from tiny_training import BARE, gradients, make_trainer, process_group, write_moved_policy
from torch import Tensor

from dphrl.cli import main
from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.batch import Row
from dphrl.policy.check_model import check_base, check_same_tokenizer
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.training.loss import Example
from dphrl.training.schedule import epoch_indices

ROOT = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("DPHRL_TRL_PYTHON", ROOT / ".venv-trl" / "bin" / "python"))
# As it was before this process had a process group: TRL would take its port.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "workflow_scripts")}
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not PYTHON.exists(), reason=f"no environment with TRL at {PYTHON}: run make trl"),
]
TOLERANCE = 1e-5
SEED, STORED, PER_STEP, PARTS, ROWS = 1, 12, 8, 4, 6


@dataclass(frozen=True)
class Case:
    """A loss: the method here, and what TRL gets instead where a test wants a difference."""

    divergence: str = "forward_kl"
    options: tuple[tuple[str, float], ...] = ()
    norm: str = "separate"
    eta: float = 0.1
    moved: bool = True  # whether the policy has been updated since it sampled, so that ratios are clipped
    theirs: tuple[tuple[str, Any], ...] = ()  # other values of the fields of a case
    args: tuple[tuple[str, Any], ...] = ()  # other settings of TRL
    accepted: bool = True  # whether the trainer gets them as accepted


EQUAL = {
    "on_policy": Case(moved=False),
    "clipped": Case(),
    "joint": Case(norm="joint"),
    "tokens": Case(norm="tokens"),
    "js": Case("js"),
    "alpha": Case("alpha", (("alpha", 0.3),)),
    "js_on_policy_joint": Case("js", norm="joint", eta=0.2, moved=False),
}
# What each changes of the gradient, at least; docs/with-your-trainer.md has the measured values.
DIFFERENT = {
    "eta_by_a_thousandth": (Case(theirs=(("eta", 0.1001),)), 2e-5),
    "another_divergence": (Case(theirs=(("divergence", "js"),)), 1e-3),
    "another_norm": (Case(theirs=(("norm", "joint"),)), 1e-3),
    "bf16": (Case(args=(("bf16", True),)), 1e-3),
    "loss_type_grpo": (Case(args=(("loss_type", "grpo"),)), 1e-2),
    "loss_type_dr_grpo": (Case(args=(("loss_type", "dr_grpo"),)), 1e-2),
    "no_delta": (Case(args=(("delta", None),)), 1e-3),
    "epsilon_high": (Case(args=(("epsilon_high", 0.2),)), 1e-3),
    "temperature": (Case(args=(("temperature", 0.7),)), 1e-2),
    "importance_sampling_level": (Case(args=(("importance_sampling_level", "sequence"),)), 1e-2),
}
REFUSED = {
    f"refused_{name}": (Case(args=((name, value),), accepted=False), f"{name} is {value!r}, the loss of DPH-RL needs")
    for name, value in {
        "bf16": True,
        "loss_type": "grpo",
        "temperature": 0.7,
        "delta": None,
        "importance_sampling_level": "sequence",
        "steps_per_generation": 8,
        "beta": 0.1,
        "entropy_coef": 0.1,
        "top_entropy_quantile": 0.5,
        "mask_truncated_completions": True,
    }.items()
} | {"refused_divergence": (Case("reverse_kl"), "use forward_kl, js or alpha")}
CASES = EQUAL | {name: case for name, (case, _) in (DIFFERENT | REFUSED).items()}


@dataclass(frozen=True)
class World:
    """A policy that has moved from its base, rollouts of it, and stored responses with the base's log-probs."""

    policy: Path
    base: Path
    rollouts: list[Example]
    stored: list[Example]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    write_tiny_policy(folder / "base")
    policy = write_moved_policy(folder / "base", folder / "policy")
    generator = torch.Generator().manual_seed(5)

    def tokens(low: int, high: int) -> list[int]:
        length = int(torch.randint(low, high, (1,), generator=generator))
        return torch.randint(3, 40, (length,), generator=generator).tolist()

    rows = [Row(tokens(3, 20), tokens(1, 12)) for _ in range(PARTS * ROWS)]
    kept = [Row(tokens(3, 20), tokens(1, 12)) for _ in range(STORED)]
    now, of_base = (LogProbs(load_model(path, "float32")) for path in (policy, folder / "base"))
    old = [p + 0.6 * torch.randn(len(p), generator=generator) for p in response_logprobs(now, rows, 10_000)]
    advantages = torch.randn(len(rows), generator=generator).tolist()
    reference = response_logprobs(of_base, kept, 10_000)
    log_ratios = torch.cat(response_logprobs(now, kept, 10_000)) - torch.cat(reference)
    # At the base policy every divergence has the gradient 0, and the test would show nothing.
    assert log_ratios.abs().mean() > 0.05
    assert log_ratios.max() > 3.0  # beyond l_cap
    return World(
        policy,
        folder / "base",
        [Example(row, advantage=a, old=o) for row, a, o in zip(rows, advantages, old, strict=True)],
        [Example(row, True, reference=values) for row, values in zip(kept, reference, strict=True)],
    )


@pytest.fixture(scope="module")
def of_trl(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with TRL's gradient of every case, while this process has a group for this project's trainer."""
    folder = tmp_path_factory.mktemp("trl")
    stored = [
        {"prompt_ids": e.row.prompt, "response_ids": e.row.response, "ref_logprobs": e.reference.tolist()}
        for e in world.stored
    ]
    cases = []
    for name, case in CASES.items():
        rollouts = [
            {
                "prompt": e.row.prompt,
                "response": e.row.response,
                "advantage": e.advantage,
                "old": e.old.tolist() if case.moved else None,
            }
            for e in world.rollouts
        ]
        given = {
            "name": name,
            "policy": str(world.policy),
            "rollouts": [rollouts[part * ROWS : (part + 1) * ROWS] for part in range(PARTS)],
            "stored": stored,
            "divergence": case.divergence,
            "options": dict(case.options),
            "eta": case.eta,
            "norm": case.norm,
            "per_step": PER_STEP,
            "seed": SEED,
            "args": dict(case.args),
            "accepted": [key for key, _ in case.args] if case.accepted else [],
        }
        cases.append({**given, **dict(case.theirs)})
    (folder / "cases.json").write_text(json.dumps(cases))
    script = ROOT / "tests" / "support" / "trl_gradients.py"
    command = [str(PYTHON), str(script), str(folder / "cases.json"), str(folder)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with process_group():
        yield folder


def _ours(world: World, case: Case) -> dict[str, Tensor]:
    """The gradient of this project's trainer."""
    method = MethodConfig(divergence=case.divergence, eta=case.eta, **dict(case.options))
    trainer = make_trainer(world.policy, method, world.base, rehearsal_norm=case.norm, **BARE)
    drawn = epoch_indices(SEED, "rehearsal", 1, PER_STEP, STORED)
    rollouts = world.rollouts if case.moved else [Example(e.row, advantage=e.advantage) for e in world.rollouts]
    trainer.update([*rollouts, *(world.stored[i] for i in drawn)], 1e-3)
    return gradients(trainer)


def _distance(world: World, name: str, folder: Path) -> float:
    """The norm of the difference of all gradients, divided by the norm of this project's."""
    ours, theirs = _ours(world, CASES[name]), load_file(folder / f"{name}.safetensors")
    by_name = {key.removeprefix("model.") if key not in theirs else key: value for key, value in ours.items()}
    assert by_name.keys() == theirs.keys()
    difference = torch.cat([(by_name[key] - theirs[key]).double().flatten() for key in theirs])
    distance = float(difference.norm() / torch.cat([value.double().flatten() for value in ours.values()]).norm())
    print(f"{name}: {distance:.2g}")
    return distance


@pytest.mark.parametrize("name", EQUAL)
def test_the_gradient_of_the_example_is_that_of_this_project(world: World, of_trl: Path, name: str) -> None:
    assert _distance(world, name, of_trl) <= TOLERANCE


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_setting_gives_another_gradient(world: World, of_trl: Path, name: str) -> None:
    assert _distance(world, name, of_trl) > DIFFERENT[name][1]


@pytest.mark.parametrize("name", REFUSED)
def test_the_example_refuses_a_setting_that_makes_the_loss_another_one(of_trl: Path, name: str) -> None:
    assert REFUSED[name][1] in (of_trl / f"{name}.txt").read_text()


def test_a_training_on_exported_files_writes_a_checkpoint(exportable: Path, tmp_path: Path) -> None:
    data, base, out = tmp_path / "data", exportable / "policies" / "base", tmp_path / "out"
    assert main(["export", str(exportable), "--out", str(data)]) == 0
    sizes = {"max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_generations": 2}
    options = {"data": data, "model": base, "output_dir": out, **sizes, "max_completion_length": 4, "per_step": 3}
    command = [str(PYTHON), str(ROOT / "examples" / "trl" / "dph_trainer.py"), "--use_cpu", "true"]
    command += [text for name, value in options.items() for text in (f"--{name}", str(value))]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    # What the job import_model asks of a model under `checkpoints`.
    check_base(out)
    check_same_tokenizer(out, base)
