"""vLLM's worker on CPUs for an engine that is spread over several ranks."""

import os

from vllm.v1.worker.cpu_worker import CPUWorker


class SpreadWorker(CPUWorker):
    """Its shared memory is named by the port at which the ranks of this training meet.

    vLLM names it by ranks only: two trainings on one machine would use the same.
    """

    def init_device(self) -> None:
        # The process group exists already, so only the part after the last colon is used: in that name.
        self.distributed_init_method = f"env://:{os.environ['MASTER_PORT']}"
        super().init_device()
