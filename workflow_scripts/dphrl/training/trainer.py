"""The policy under DeepSpeed: one optimizer update from a mini-batch of both kinds of rows, and its private state."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.config.methods import MethodConfig
from dphrl.config.train import TrainConfig
from dphrl.model import LogProbs, Row, collate, micro_batches, response_logprobs
from dphrl.objective import ComponentWeights, Divergence, component_weights, divergence, policy_loss

_STATE = "optimizer.safetensors"


@dataclass(frozen=True)
class Example:
    """One row to train on. Its kind decides its loss: with `reference` the divergence, else the policy loss.

    Attributes:
        row: prompt and response.
        advantage: of a D_exp row.
        old: log pi_old of its response tokens; None where the policy is still the one that sampled.
        reference: stored reference log-probs of a D_pef row.
    """

    row: Row
    advantage: float = 0.0
    old: Tensor | None = None
    reference: Tensor | None = None


class Trainer:
    """A policy with its optimizer.

    Args:
        model: the policy to train, as loaded.
        config: the block `train`.
        method: the entry of `methods`.
    """

    def __init__(self, model: PreTrainedModel, config: TrainConfig, method: MethodConfig) -> None:
        import deepspeed

        self.config, self.method = config, method
        self.model = model
        self.divergence = _divergence(method)
        self._engine, *_ = deepspeed.initialize(
            model=LogProbs(model), config=_deepspeed_config(config), model_parameters=model.parameters()
        )
        self.device = str(self._engine.device)

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Log-probs of each row's response tokens under the current weights, without gradient."""
        return response_logprobs(self._engine.module, rows, self.config.token_budget, self.device)

    def update(self, examples: Sequence[Example], lr: float) -> dict[str, float]:
        """One optimizer update on a mini-batch; its result does not depend on the cut into micro-batches.

        Returns:
            Sums over tokens (keys ending in `_sum`), token counts, and the gradient norm.
        """
        weights = self._weights(examples)
        totals: dict[str, float] = {}
        # Each kind is cut for itself: with eta = 0 the rows of D_exp then give the same bits as without rehearsal.
        for rehearsal in (False, True):
            part = [example for example in examples if (example.reference is not None) == rehearsal]
            for group in micro_batches([e.row.length for e in part], self.config.token_budget):
                loss, sums = self._micro_batch([part[i] for i in group], weights)
                self._engine.backward(loss)
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
        for group in self._engine.optimizer.param_groups:
            group["lr"] = lr
        self._engine.step()
        return {**totals, "grad_norm": float(self._engine.get_global_grad_norm())}

    def _weights(self, examples: Sequence[Example]) -> ComponentWeights:
        rehearsal = [e for e in examples if e.reference is not None]
        pef_tokens = sum(len(e.row.response) for e in rehearsal)
        all_tokens = sum(len(e.row.response) for e in examples)
        return component_weights(
            rows=(len(examples) - len(rehearsal), len(rehearsal)),
            tokens=(all_tokens - pef_tokens, pef_tokens),
            eta=self.method.eta,
            norm=self.config.rehearsal_norm,
        )

    def _micro_batch(self, examples: Sequence[Example], weights: ComponentWeights) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of some rows, routed per row, never per micro-batch, and what is measured on the way."""
        logprobs, entropy = self._engine(collate([e.row for e in examples], self.device))
        lengths = torch.tensor([len(e.row.response) for e in examples])
        rehearsal = torch.tensor([e.reference is not None for e in examples]).repeat_interleave(lengths)
        exploration = ~rehearsal
        loss = logprobs.new_zeros(())
        sums: dict[str, Tensor] = {}
        if exploration.any():
            ours = logprobs[exploration]
            parts = ours.detach().split([len(e.row.response) for e in examples if e.reference is None])
            explored = [e for e in examples if e.reference is None]
            old = torch.cat([p if e.old is None else e.old.to(p) for e, p in zip(explored, parts, strict=True)])
            advantages = torch.cat([torch.full_like(p, e.advantage) for e, p in zip(explored, parts, strict=True)])
            result = policy_loss(
                ours,
                old,
                advantages,
                eps_low=self.config.eps_low,
                eps_high=self.method.eps_high,
                dual_clip=self.config.dual_clip,
            )
            loss = loss + weights.exploration * result.loss.sum()
            log_ratio = (ours - old).detach()
            sums |= {
                "policy_loss_sum": result.loss.detach().sum(),
                "clipped_sum": result.clipped.sum(),
                "kl_to_old_sum": (torch.expm1(-log_ratio) + log_ratio).sum(),
                "entropy_sum": entropy[exploration].sum(),
                "exploration_tokens": exploration.sum(),
            }
        if rehearsal.any():
            assert self.divergence is not None, "rehearsal rows reached a method without a divergence"
            reference = torch.cat([e.reference for e in examples if e.reference is not None]).to(logprobs)
            value = self.divergence.value(logprobs[rehearsal] - reference)
            loss = loss + weights.rehearsal * value.sum()
            sums |= {"divergence_sum": value.detach().sum(), "rehearsal_tokens": rehearsal.sum()}
        return loss, sums

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """The current weights under their Hugging Face names."""
        for name, parameter in self.model.named_parameters():
            yield name, parameter.detach()

    def save_state(self, folder: Path) -> None:
        """Write the master weights and moments of the optimizer as safetensors: no pickle, private to this project."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"{i}.{name}": tensor for i, part in enumerate(self._parts()) for name, tensor in part.items()}
        # One entry only: safetensors writes several in an order that differs from run to run.
        save_file(tensors, folder / _STATE, metadata={"layout": self._layout()})

    def load_state(self, folder: Path) -> None:
        """Take up the optimizer where `save_state` left it.

        Raises:
            ValueError: the state was written by another layout of ranks, ZeRO stage or model.
        """
        with safe_open(folder / _STATE, framework="pt", device=self.device) as file:
            found = file.metadata()["layout"]
            if found != self._layout():
                raise ValueError(
                    f"{folder / _STATE}: written by {found}, but this run is {self._layout()}: use the ranks and the"
                    " ZeRO stage that it was written with, or start this training anew"
                )
            for i, (parameter, state) in enumerate(self._slots()):
                parameter.data.copy_(file.get_tensor(f"{i}.master"))
                prefix = f"{i}.state."
                state |= {key[len(prefix) :]: file.get_tensor(key) for key in file.keys() if key.startswith(prefix)}  # noqa: SIM118

    def _slots(self) -> list[tuple[Tensor, dict[str, Tensor]]]:
        """Each flat master tensor of the inner optimizer with its moments."""
        optimizer = self._engine.optimizer.optimizer
        return [(p, optimizer.state[p]) for group in optimizer.param_groups for p in group["params"]]

    def _parts(self) -> list[dict[str, Tensor]]:
        return [{"master": p.detach(), **{f"state.{k}": v for k, v in state.items()}} for p, state in self._slots()]

    def _layout(self) -> str:
        facts = {
            "world_size": self._engine.world_size,
            "zero_stage": self.config.zero_stage,
            "masters": [p.numel() for p, _ in self._slots()],
        }
        return json.dumps(facts, sort_keys=True)


def start_process_group() -> None:
    """A process group of this one process, which the engine of the rollouts shares."""
    import deepspeed

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    defaults = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {name: value for name, value in defaults.items() if name not in os.environ}
    # DeepSpeed would compile a shared-memory all-reduce here; a build that is killed leaves a lock others wait on.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo", verbose=False)


def _divergence(method: MethodConfig) -> Divergence | None:
    if method.divergence is None:
        return None
    if method.divergence == "forward_kl":
        return divergence("forward_kl", estimator=method.estimator, l_cap=method.l_cap)
    return divergence("js", js_scale=method.js_scale, l_cap=method.l_cap)


def _deepspeed_config(config: TrainConfig) -> dict[str, Any]:
    adam = {"lr": config.lr, "betas": list(config.betas), "eps": 1e-8, "weight_decay": config.weight_decay}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        # The number of micro-batches follows from their lengths: step() alone ends an accumulation.
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.clip_grad_norm,
        "zero_optimization": {"stage": config.zero_stage},
        "bf16": {"enabled": config.dtype == "bfloat16"},
        # PyTorch's own AdamW: DeepSpeed's would be compiled on first use.
        "optimizer": {"type": "AdamW", "params": {**adam, "torch_adam": True}},
        "steps_per_print": 1 << 40,
    }
