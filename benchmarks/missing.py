"""What missing entries cost, and what they change: the closed form on the large data, a fifth of
the entries missing.

    python benchmarks/missing.py

The cost is the processor time of a sweep with missing entries over that of one without
(remedies.py).  What they change is the correlation of the memberships with those of the complete
data, components matched.
"""

import numpy as np
from remedies import seconds_a_sweep
from threadpoolctl import threadpool_limits

from bjmd.analysis.matching import similarities
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd_paper.datasets import synthetic

SHARE = 0.2
REPEATS = 5


def with_holes(sources):
    rng = np.random.default_rng(0)
    return Sources([np.where(rng.random(x.shape) < SHARE, np.nan, x) for x in sources.matrices])


def main():
    with threadpool_limits(1):
        complete = synthetic.generate("large", 4.0, 4).sources
        holed = with_holes(complete)
        seconds_a_sweep(Sources([x[:, :100] for x in holed.matrices]))  # compiles
        ratio = np.median(
            [seconds_a_sweep(holed) / seconds_a_sweep(complete) for _ in range(REPEATS)]
        )
        print(f"a sweep with {SHARE:.0%} missing over one without: {ratio:.2f} (goal: at most 2.5)")
        for sigma3 in (1.5, 4.0):
            sources = synthetic.generate("large", sigma3, 4).sources
            fits = [
                registry.fit("cavi-bjmd", s, 10, seed=0) for s in (sources, with_holes(sources))
            ]
            found = similarities(fits)[0]
            print(
                f"sigma3 = {sigma3}: correlation of memberships with the complete fit {found.mean():.4f}"
            )


if __name__ == "__main__":
    main()
