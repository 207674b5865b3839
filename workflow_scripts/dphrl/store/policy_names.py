"""Names of policies and draws."""

from __future__ import annotations

import re
from typing import NamedTuple, Self


class PolicyName(NamedTuple):
    """A policy: `method-s<seed>/step<step>` for a trained policy, only a name for `base` and for recorded answers.

    The step is 0 for a policy that the run did not train. Its seed is 0, or the number of a checkpoint among several:
    `name-s<seed>/step0`.
    """

    method: str
    seed: int = 0
    step: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The policy of a name as `str` prints it."""
        match = re.fullmatch(r"(?P<method>.+)-s(?P<seed>\d+)/step(?P<step>\d+)", text)
        return cls(match["method"], int(match["seed"]), int(match["step"])) if match else cls(text)

    def __str__(self) -> str:
        return f"{self.training}/step{self.step}" if self.seed or self.step else self.method

    def mixed(self, share: float) -> Self:
        """The policy whose weights are the base's and so much of this policy's: `method-m50-s<seed>/step<step>`."""
        return self._replace(method=f"{self.method}-m{round(100 * share)}")

    @property
    def training(self) -> str:
        """The training of the policy: `method-s<seed>`."""
        return f"{self.method}-s{self.seed}"


BASE = PolicyName("base")
# The model of the user before its supervised start, which gives the base.
START = PolicyName("start")
# The draw of stage 1 (pre-samples, refinement, partition, stored responses) by the run's seed alone.
DRAW = "main"
