"""Odd model outputs of a random kind, by seed, for what judges them.

`make fuzz MINUTES=10 SEED=2` runs each family for so long; as a part of `make test-full` each runs for half a minute.
"""

import os
import time
from collections.abc import Callable
from random import Random

import fuzz_math
import fuzz_sql
import pytest

FAMILIES: dict[str, Callable] = {"sql": fuzz_sql.fuzz, "math": fuzz_math.fuzz}


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_no_case_breaks_a_rule(family):
    minutes, seed = float(os.environ.get("FUZZ_MINUTES", "0.5")), int(os.environ.get("FUZZ_SEED", "1"))
    end = time.monotonic() + 60 * minutes
    tally = FAMILIES[family](Random(f"{family}/{seed}"), lambda: time.monotonic() < end)
    print(f"\n{family}, seed {seed}, {minutes:g} minutes: {sum(tally.values()):,} cases, {dict(sorted(tally.items()))}")
    assert tally
