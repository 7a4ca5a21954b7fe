"""What intNMF asks the user for, BJMD infers: weights of sources that differ in noise.

    python benchmarks/intnmf_weights.py

Data: the blocks and memberships of the small synthetic data with noise sd 1, 1 and 8, clipped at
zero because intNMF needs that.  Scores are AUC x 100 per source, the mean of the best 5 of 20
restarts by objective.
"""

import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import restarts
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

NOISE = np.array([1.0, 1.0, 8.0])


def main():
    truth = synthetic.generate("small", 4.0, 4)
    rng = np.random.default_rng(0)
    sources = Sources(
        [
            np.maximum(
                truth.components @ h
                + sd * rng.standard_normal((len(truth.components), h.shape[1])),
                0,
            )
            for h, sd in zip(truth.memberships, NOISE, strict=True)
        ],
        labels=truth.sources.labels,
    )

    def best(method, **options):
        runs = restarts.run(method, sources, truth.components.shape[1], n_restarts=20, **options)
        chosen = restarts.best(runs, 5)
        scores = np.mean(
            [auc_per_source(run.memberships, sources.labels) for run in chosen], axis=0
        )
        return chosen[0], 100 * scores

    fitted, bjmd_scores = best("map-bjmd")
    variances = np.array([x.var() for x in sources.matrices])
    weightings = {
        "equal": np.ones(3),
        "1 / variance of the data": 1 / variances,
        "1 / true noise variance": 1 / NOISE**2,
        "1 / noise variance inferred by BJMD": 1 / fitted.noise**2,
    }
    print(f"{'method and weights':45s} {'shares of the weight':>24s}    AUC x 100")
    for name, weights in weightings.items():
        _, scores = best("intnmf", weights=weights)
        print(f"intNMF, {name:37s} {_row(100 * weights / weights.sum())}    {_row(scores)}")
    print(f"{'MAP-BJMD, none asked for':45s} {'':24s}    {_row(bjmd_scores)}")


def _row(values):
    return " ".join(f"{value:7.2f}" for value in values).rjust(24)


if __name__ == "__main__":
    main()
