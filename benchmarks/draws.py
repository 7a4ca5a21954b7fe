"""How much the draw of the synthetic data matters: MAP-BJMD's AUC over many seeds of the data.

python benchmarks/draws.py
"""

import numpy as np

from bjmd.fits import restarts
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

if __name__ == "__main__":
    for scale, n_draws, n_restarts in (("small", 40, 20), ("large", 5, 8)):
        scores = []
        for seed in range(n_draws):
            drawn = synthetic.generate(scale, 4.0, seed)
            runs = restarts.run(
                "map-bjmd", drawn.sources, synthetic.SCALES[scale].n_components, n_restarts=n_restarts, jobs=2
            )
            best = restarts.best(runs, n_restarts // 4)
            scores.append(np.mean([auc_per_source(run.memberships, drawn.sources.labels) for run in best], axis=0))
        scores = 100 * np.array(scores)
        print(f"{scale}, sigma3 = 4, {n_draws} draws: AUC mean {scores.mean(0).round(2)}, sd {scores.std(0).round(2)}")
