"""The policy under DeepSpeed: one optimizer update from a mini-batch of both kinds of rows."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import PreTrainedModel

from dphrl.config.blocks.base import Dtype
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.objective.aggregation import ComponentWeights
from dphrl.policy.batch import MicroBatch, Row, collate
from dphrl.policy.collectives import all_gather, all_reduce_max, all_reduce_sum, divide_frozen, rank, world_size
from dphrl.policy.logprobs import LogProbs, by_row
from dphrl.training.loss import Example, Objective, Sums, topk_of
from dphrl.training.optimizer import initialize, load_state, load_trained, save_state
from dphrl.training.weights import add_adapters, merged_weights, save_policy


@dataclass(frozen=True)
class Update:
    """Result of an update.

    Attributes:
        totals: over all ranks: sums over tokens (names ending in `_sum`) and numbers of tokens.
        grad_norm: norm of the gradient before clipping.
        logprobs: of this rank's examples before the update, in their order; empty where an example does not count.
    """

    totals: dict[str, float]
    grad_norm: float
    logprobs: list[Tensor]


class Trainer:
    """A policy with its optimizer.

    Args:
        model: the policy to train, as loaded, on the CPU; with adapters, the base policy.
        config: the block `train`.
        hardware: the block `hardware`.
        method: the entry of `methods`.
        state: folder of the state to continue from; None for a fresh optimizer.
        reference_model: the base policy, as loaded, for a method that needs its log-probs of rollouts.
        seed: of the adapters' initial weights.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: TrainConfig,
        hardware: HardwareConfig,
        method: MethodConfig,
        state: Path | None = None,
        reference_model: PreTrainedModel | None = None,
        seed: int = 0,
    ) -> None:
        self.config, self.hardware, self.method, self.model = config, hardware, method, model
        self.objective = Objective(method, config)
        if hardware.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            # It needs training mode. Without dropout a step stays a function of its inputs.
            model.train()
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
                if hasattr(module, "attention_dropout"):
                    module.attention_dropout = 0.0
        if method.lora is not None:
            add_adapters(model, method.lora, seed)
            if state is not None:
                # They cannot be recovered from the merged policy.
                load_trained(model, state)
        self._deepspeed = initialize(LogProbs(model, hardware.attention), config, hardware)
        self.device = str(self._deepspeed.device)
        self._reference_model = None
        if reference_model is not None:
            frozen = LogProbs(reference_model, hardware.attention)
            self._reference_model = FrozenModel(frozen, config.dtype, hardware.zero_stage, self.device)
        if state is not None:
            load_state(self._deepspeed, state)

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Log-probs of each row's response tokens under the current weights, without gradient."""
        return self._by_row(self._deepspeed.module, rows)

    def reference_logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Log-probs of each row's response tokens under the base policy, which was passed as `reference_model`."""
        assert self._reference_model is not None
        with self._reference_model.loaded() as module:
            return self._by_row(module, rows)

    def update(
        self, examples: Sequence[Example], lr: float, at_work: Callable[[str], None] = lambda text: None
    ) -> Update:
        """One optimizer update on a mini-batch, of which `examples` are this rank's share.

        Its result does not depend on the split into micro-batches or ranks. Without an example that counts there is no
        update, and the norm is NaN.

        Args:
            at_work: receives how many rows are done, after each pass.
        """
        weights = self._weights(examples)
        if weights is None:
            return Update({}, math.nan, [torch.empty(0)] * len(examples))
        # Tensors on the device until the last pass: a copy would keep the host from queuing the next one.
        totals: dict[str, Any] = defaultdict(float)
        logprobs: list[Tensor] = [torch.empty(0)] * len(examples)
        done = 0
        for part, group in self._passes(examples):
            if group is None:
                idle, _ = self._deepspeed(collate([examples[0].row], self.device))
                self._deepspeed.backward(0.0 * idle.sum())
                continue
            loss, sums, ours = self._micro_batch(self._deepspeed, [examples[i] for i in part], group, weights)
            # DeepSpeed takes the mean over ranks; the loss weights are for the sum.
            self._deepspeed.backward(loss * world_size())
            for i, values in zip(part, ours, strict=True):
                logprobs[i] = values
            for name, value in sums.items():
                totals[name] += value
            done += len(part)
            at_work(f"{done} of {len(examples)} rows of an update")
        for group in self._deepspeed.optimizer.param_groups:
            group["lr"] = lr
        self._deepspeed.step()
        over_ranks = all_reduce_sum({name: float(total) for name, total in totals.items()})
        return Update(over_ranks, float(self._deepspeed.get_global_grad_norm()), [part.cpu() for part in logprobs])

    def divergence_share(self, examples: Sequence[Example]) -> float | None:
        """The divergence's share of the gradient on a mini-batch: |g_D| / (|g_D| + |g_P|), P the policy loss.

        No weight and no state changes. None for a loss without a divergence, for a divergence in the advantages, and
        with ZeRO-3, where no rank holds a whole gradient.
        """
        weights = self._weights(examples)
        if self._partitioned or weights is None or not (weights.rehearsal or weights.rollout_divergence):
            return None
        policy = self._gradient_norm(examples, replace(weights, rehearsal=0.0, rollout_divergence=0.0))
        divergence = self._gradient_norm(examples, replace(weights, exploration=0.0))
        return divergence / (divergence + policy) if divergence + policy else None

    def _gradient_norm(self, examples: Sequence[Example], weights: ComponentWeights) -> float:
        """The norm of the gradient of a mini-batch's loss, of which `examples` are this rank's share."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        total = [torch.zeros_like(parameter) for parameter in parameters]
        # Not through DeepSpeed, which would add this to the gradient of the update.
        for part, group in self._passes(examples):
            if group is None:
                continue
            loss, *_ = self._micro_batch(self._deepspeed.module, [examples[i] for i in part], group, weights)
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            for sum_, gradient in zip(total, gradients, strict=True):
                if gradient is not None:
                    sum_ += gradient
        if world_size() > 1:
            for gradient in total:
                dist.all_reduce(gradient)
        return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in total))

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The current weights under their Hugging Face names, adapters merged; with ZeRO-3 gathered one at a time.

        All ranks must iterate over it together.
        """
        for name, tensor in merged_weights(self.model, self._gather):
            # A gathered tensor is freed when the context exits, but an engine may hold it until its layer is complete.
            yield name, tensor.clone() if self._partitioned else tensor

    def save_policy(self, folder: Path) -> dict[str, str]:
        """Write the weights as a Hugging Face folder: all ranks must call, rank 0 writes and gets the sha256s."""
        return save_policy(self.model, folder, self._gather, write=rank() == 0)

    def save_state(self, folder: Path) -> dict[str, str]:
        """Write the files that `Trainer(state=...)` restores; each rank writes its part, and gets its sha256."""
        return save_state(self._deepspeed, folder)

    @property
    def _partitioned(self) -> bool:
        """Whether each rank holds only a part of every weight (ZeRO-3)."""
        return self.hardware.zero_stage == 3

    def _gather(self, parameters: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        import deepspeed

        return deepspeed.zero.GatheredParameters(parameters, enabled=self._partitioned)

    def _weights(self, examples: Sequence[Example]) -> ComponentWeights | None:
        """Weights of the token losses of a mini-batch, by its rows and tokens on all ranks; None if none counts."""
        counted = [e for e in examples if e.counted]
        rollouts, stored = (
            [len(e.row.response) for e in counted if e.rehearsal == rehearsal] for rehearsal in (False, True)
        )
        of_ranks = all_gather([len(rollouts), len(stored), sum(rollouts), sum(stored)])
        rows, stored_rows, tokens, stored_tokens = (sum(counts) for counts in zip(*of_ranks, strict=True))
        if not rows + stored_rows:
            return None
        return self.objective.loss_weights((rows, stored_rows), (tokens, stored_tokens))

    def _passes(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], MicroBatch | None]]:
        """This rank's passes over a mini-batch: numbers of examples and their micro-batch.

        Without one for a pass that other ranks make and this rank only has to join.
        """
        # Each kind is cut separately: with eta = 0 the rollouts then give the same bits as without rehearsal.
        for rehearsal in (False, True):
            chosen = [i for i, example in enumerate(examples) if example.rehearsal == rehearsal and example.counted]
            cut, idle_passes = self._cut([examples[i].row for i in chosen])
            yield from (([chosen[i] for i in group.rows], group) for group in cut)
            yield from [([], None)] * idle_passes

    def _micro_batch(
        self, module: nn.Module, examples: Sequence[Example], group: MicroBatch, weights: ComponentWeights
    ) -> tuple[Tensor, Sums, list[Tensor]]:
        """Loss, sums and log-probs of rows of one kind, on the device."""
        batch = collate([example.row for example in examples], self.device, group.shared, group.form)
        lengths = [len(example.row.response) for example in examples]
        if examples[0].rehearsal:
            top = topk_of(examples)[0].to(self.device) if self.method.topk_estimator else None
            logprobs, _, *of_top = module(batch, top)
            loss, sums = self.objective.rehearsal_loss(logprobs, of_top[0] if of_top else None, examples, weights)
        else:
            logprobs, entropy = module(batch)
            loss, sums = self.objective.rollout_loss(logprobs, entropy, examples, weights)
        return loss, sums, [*logprobs.detach().split(lengths)]

    def _cut(self, rows: Sequence[Row]) -> tuple[list[MicroBatch], int]:
        """This rank's micro-batches, and how many passes the rank with the most makes beyond these.

        Ranks exchange weights and gradients in every pass, so all must make the same number of passes.
        """
        cut = self._deepspeed.module.plan(rows, self.hardware.token_budget, self.hardware.prompt_sharing)
        return cut, int(all_reduce_max(len(cut))) - len(cut)

    def _by_row(self, module: nn.Module, rows: Sequence[Row]) -> list[Tensor]:
        cut, idle_passes = self._cut(rows)
        # Repeating a pass changes no result.
        return [logprobs for logprobs, _ in by_row(module, rows, cut + cut[-1:] * idle_passes, self.device)]


class FrozenModel:
    """A policy that is only evaluated, and leaves the GPU to an engine in the meantime.

    With ZeRO-3 it is divided between the ranks like the trained policy, else it is on the CPU between uses.

    Args:
        module: on the CPU, of this dtype.
        device: where it is evaluated.
    """

    def __init__(self, module: nn.Module, dtype: Dtype, zero_stage: int, device: str) -> None:
        self._module, self._device = module.requires_grad_(False), device
        self._partitioned = zero_stage == 3
        if self._partitioned:
            divide_frozen(module, dtype)

    @contextmanager
    def loaded(self) -> Iterator[nn.Module]:
        """The module, ready to be called."""
        # The tensors on the CPU stay: weights that are mapped from a file would be copies if they came back.
        moved = () if self._partitioned else chain(self._module.parameters(), self._module.buffers())
        held = [(tensor, tensor.data) for tensor in moved]
        for tensor, data in held:
            tensor.data = data.to(self._device)
        yield self._module
        for tensor, data in held:
            tensor.data = data
