"""What ranks exchange: real processes on gloo."""

from dphrl.policy.ranks import run_ranks

# DeepSpeed's default, bound when it is imported, is 10 minutes: here it is shorter than a rank is late.
LATE = """
import time
from datetime import timedelta
from deepspeed import init_distributed
defaults = init_distributed.__defaults__
init_distributed.__defaults__ = tuple(timedelta(seconds=1) if isinstance(v, timedelta) else v for v in defaults)
from dphrl.policy.collectives import all_gather, all_reduce_max, control_group, rank, start_process_group
start_process_group()
group = control_group(2)
time.sleep(2 * rank())
assert all_reduce_max(rank()) == 1
assert all_gather(rank(), group) == [0, 1]
"""


def test_ranks_wait_for_one_that_is_late() -> None:
    run_ranks(2, ["-c", LATE])
