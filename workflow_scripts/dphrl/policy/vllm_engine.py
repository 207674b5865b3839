"""vLLM in this process: generation, log-probs of a given text, and a weight push."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch._inductor.config
import torch.distributed as dist
from torch import Tensor, nn

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.data.tokens import load_tokenizer
from dphrl.machine.private import use_private_caches
from dphrl.machine.progress import ProgressLines
from dphrl.policy.engine import AsleepError, Digest, check_prompts
from dphrl.policy.logprobs import refuse_adapter
from dphrl.policy.requests import Completion, Request
from dphrl.policy.response_tokens import response_text, stop_tokens
from dphrl.store.stage import V2_RUNNER

_LONGEST_BATCH = 8192
# Share of a GPU's memory that an engine alone on it occupies, and that must be free at its start.
_UTILISATION = 0.92
# With a cache of a given size vLLM only checks that this share is free: by default 92 %, on a shared card too much.
_LEAST_FREE = 0.01


def _prepare_environment(kv_cache_gib: float, batch_invariant: bool) -> None:
    """Set the environment variables that vLLM reads when it is imported."""
    use_private_caches()
    # These would be in the folder of temporary files, whatever is set, and the engine starts faster without them.
    torch._inductor.config.cpp_cache_precompile_headers = False
    os.environ |= {
        # Run the engine core in this process: weights can be pushed into it, and it ends with the job.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # By default the CPU build takes most of the memory and pins the whole process, trainer included, to one core.
        "VLLM_CPU_KVCACHE_SPACE": str(math.ceil(kv_cache_gib)),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
        # On a CPU responses never depend on others, and the CPU build does not start with this setting.
        "VLLM_BATCH_INVARIANT": str(int(batch_invariant and torch.cuda.is_available())),
        # On CUDA vLLM's default is V2, which no test here has run; on a CPU it is V1.
        V2_RUNNER: os.environ.get(V2_RUNNER, "0"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def drop_shared_memory(parts: int) -> None:
    """Remove the name of this rank's shared memory, which vLLM's CPU build would leave; after the start none needs it.

    Args:
        parts: ranks per engine.
    """
    rank = dist.get_rank()
    first = rank - rank % parts
    ranks = "-".join(map(str, range(first, first + parts)))
    # The port identifies this training (`SpreadWorker`); other files belong to other trainings.
    for file in Path("/dev/shm").glob(f"{os.environ['MASTER_PORT']}-tp:*-[[]{ranks}]-cpushm_{rank % parts}"):
        file.unlink(missing_ok=True)


def llm_arguments(
    folder: Path, config: EngineConfig, hardware: HardwareConfig, *, distributed: bool, alone: bool, on_gpu: bool
) -> dict[str, Any]:
    """The arguments of `vllm.LLM`; the first five as `VllmEngine`."""
    arguments: dict[str, Any] = {
        "model": str(folder),
        # The files that the trainer reads; by default vLLM prefers a second form of weights and tokenizer (Mistral's).
        "load_format": "safetensors",
        "config_format": "hf",
        "tokenizer_mode": "hf",
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "max_num_seqs": hardware.sampling_max_num_seqs if alone and on_gpu else hardware.max_num_seqs,
        "max_num_batched_tokens": max(_LONGEST_BATCH, config.max_model_len),
        "generation_config": "vllm",
        "logprobs_mode": "raw_logprobs",
        "trust_remote_code": False,
        "tensor_parallel_size": hardware.tensor_parallel,
        "seed": 0,
        "disable_log_stats": True,
    }
    if distributed:
        arguments["distributed_executor_backend"] = "external_launcher"
    if not on_gpu:
        # Seeded requests crash under chunked prefill on the CPU build, so each prompt is prefilled at once.
        return arguments | {"enforce_eager": True, "enable_chunked_prefill": False}
    cache_gib = hardware.sampling_kv_cache_gib if alone else hardware.kv_cache_gib
    if cache_gib is None:
        arguments["gpu_memory_utilization"] = _UTILISATION
    else:
        arguments |= {"gpu_memory_utilization": _LEAST_FREE, "kv_cache_memory_bytes": int(cache_gib * 2**30)}
    # A sampling job never sleeps, so it needs no allocator of sleep mode.
    return arguments if alone else arguments | {"enable_sleep_mode": True}


class VllmEngine:
    """A vLLM engine on the weights of a Hugging Face folder (see `Engine`).

    Args:
        folder: model and tokenizer.
        config: dtype, lengths.
        hardware: memory, sequences at the same time, tensor parallelism.
        distributed: the engine runs inside an initialised process group (training); with `tensor_parallel` above 1
            each rank holds a part of it, and all ranks must make the same calls at the same time.
        alone: no trainer shares the GPU (sampling jobs): the engine has the memory and sequences of these, and on a GPU
            it cannot sleep.

    Raises:
        ValueError: the folder holds an adapter, which vLLM would ignore.
    """

    digests_suffice = False

    def __init__(
        self,
        folder: Path,
        config: EngineConfig,
        hardware: HardwareConfig,
        *,
        distributed: bool = False,
        alone: bool = False,
    ) -> None:
        refuse_adapter(folder)
        on_gpu = torch.cuda.is_available()
        _prepare_environment((hardware.for_sampling() if alone else hardware).kv_cache_gib, config.batch_invariant)
        from vllm import LLM

        self.max_model_len = config.max_model_len
        arguments = llm_arguments(folder, config, hardware, distributed=distributed, alone=alone, on_gpu=on_gpu)
        spread_on_cpus = distributed and hardware.tensor_parallel > 1 and not on_gpu
        if spread_on_cpus:
            from dphrl.policy.cpu_worker import SpreadWorker

            arguments["worker_cls"] = f"{SpreadWorker.__module__}.{SpreadWorker.__qualname__}"
            # Left by a rank that was killed while it started, if it had the same port.
            drop_shared_memory(hardware.tensor_parallel)
        self._llm = LLM(**arguments)
        if spread_on_cpus:
            drop_shared_memory(hardware.tensor_parallel)
        # vLLM refuses ends that the model cannot draw, such as an EOS that was added to the tokenizer alone.
        drawn = range(self._llm.llm_engine.model_config.get_vocab_size())
        self._tokenizer = load_tokenizer(folder)
        self._ends = stop_tokens(folder, self._tokenizer, config.stop_token_ids) & {*drawn}
        self._stop = list(config.stop)
        self._asleep = False

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        from vllm import SamplingParams, TokensPrompt

        self._check_awake()
        check_prompts(requests, self.max_model_len)
        if not requests:
            return []
        # Flat log-probs and no text for each token: both would cost time at each step. Stop texts need the text.
        shared: dict[str, Any] = {"logprobs": 0, "flat_logprobs": True, "skip_special_tokens": True}
        shared |= {"stop": self._stop, "stop_token_ids": sorted(self._ends), "detokenize": bool(self._stop)}
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(r.prompt_token_ids)) for r in requests],
            [
                SamplingParams(temperature=r.temperature, top_p=r.top_p, max_tokens=r.max_tokens, seed=r.seed, **shared)
                for r in requests
            ],
            use_tqdm=_progress(label) if label else False,
        )
        return [self._completion(r, output.outputs[0]) for r, output in zip(requests, outputs, strict=True)]

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        from vllm import SamplingParams, TokensPrompt

        self._check_awake()
        (output,) = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(token_ids))],
            SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0),
            use_tqdm=False,
        )
        entries = output.prompt_logprobs[1:]
        return torch.tensor([entry[token].logprob for entry, token in zip(entries, token_ids[1:], strict=True)])

    def digests(self) -> dict[str, Digest]:
        """As vLLM keeps the weights: of fused ones the parts; packed ones (CPU) are missing."""
        (held,) = self._llm.apply_model(model_digests)
        return held

    def sleep(self) -> None:
        """Drop weights and cache from the GPU's memory; without a GPU nothing is freed."""
        self._asleep = True
        if torch.cuda.is_available():
            self._llm.sleep(level=2)

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        # The cache is allocated last: its memory is free while weights are gathered and loaded.
        slept = self._asleep and torch.cuda.is_available()
        if slept:
            self._llm.wake_up(tags=["weights"])
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        if not torch.cuda.is_available():
            self._llm.apply_model(_pack_head)
        # Else prompts would be read with keys of the old weights; the canary's own text is never in the cache.
        if not self._llm.reset_prefix_cache():
            raise RuntimeError(
                "vLLM kept its prefix cache after new weights were loaded, as requests still use it: rollouts would mix"
                " old and new weights. Restart the job; if it happens again, please report it with this job's log"
            )
        if slept:
            self._llm.wake_up(tags=["kv_cache"])
        self._asleep = False

    def _completion(self, request: Request, drawn: Any) -> Completion:
        tokens = list(drawn.token_ids)
        # Each position holds the log-prob of the drawn token alone.
        logprobs = [logprob for logprob, _ in zip(drawn.logprobs.logprobs, tokens, strict=True)]
        prompt = request.prompt_token_ids
        text = drawn.text if self._stop else response_text(self._tokenizer, self._ends, prompt, tokens)
        return Completion(tokens, logprobs, text, drawn.finish_reason)

    def _check_awake(self) -> None:
        if self._asleep:
            raise AsleepError


def model_digests(model: nn.Module) -> dict[str, Digest]:
    """The digests of a vLLM model; fused layers (qkv_proj, gate_up_proj) get one for each part, as it is pushed."""
    parts: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
    digests: dict[str, Digest] = {}
    for name, tensor in model.named_parameters():
        layer, _, kind = name.rpartition(".")
        block, _, fused = layer.rpartition(".")
        sizes = getattr(model.get_submodule(layer), "output_partition_sizes", [])
        if not tensor.numel():
            continue
        if fused in parts and len(sizes) == len(parts[fused]):
            slices = zip(parts[fused], tensor.split(sizes), strict=True)
            digests |= {f"{block}.{part}.{kind}": Digest.of(rows) for part, rows in slices}
        else:
            digests[name] = Digest.of(tensor)
    return digests


def _pack_head(model: nn.Module) -> None:
    """Pack the output head again: the CPU build uses a packed copy, which a reload of a tied head does not update."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)


class _Answers(ProgressLines):
    """Lines in place of vLLM's bar. vLLM sets `postfix` to a speed, which is wrong for minutes and is not shown."""

    postfix = ""
    format_dict: ClassVar = {"elapsed": math.inf}

    def refresh(self) -> None:
        """Print nothing: `close` prints the last line."""


def _progress(label: str) -> Any:
    """A factory of vLLM's progress bars: none while it adds the requests, lines while it answers them."""

    def make(requests: Any = None, total: int = 0, **_: Any) -> Any:
        return _Answers(total, label, "responses") if requests is None else requests

    return make
