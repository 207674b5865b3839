"""The engine of a configuration, apart from `engine`, which both engines import."""

from pathlib import Path

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.policy.engine import Engine


def make_engine(
    folder: Path,
    config: EngineConfig,
    hardware: HardwareConfig,
    *,
    distributed: bool = False,
    alone: bool = False,
) -> Engine:
    """An engine on the weights of a Hugging Face folder.

    Args:
        folder: model and tokenizer.
        config: which engine; dtype, lengths.
        hardware: memory, sequences at the same time, tensor parallelism.
        distributed: the engine runs in the same processes as a trainer, inside an initialised process group.
        alone: no trainer shares the device (sampling jobs).
    """
    # Imported here: only one of the two may be installed.
    if config.name == "transformers":
        from dphrl.policy.transformers_engine import TransformersEngine

        return TransformersEngine(folder, config, hardware.for_sampling() if alone else hardware)
    from dphrl.policy.vllm_engine import VllmEngine

    return VllmEngine(folder, config, hardware, distributed=distributed, alone=alone)
