"""MAP with the update of W as printed, on the paper's own data."""

import os

import numpy as np
import pytest

from bjmd.inference import restarts
from bjmd_paper.datasets import catalogue, fetch

PRINTED = [0.3210, 0.3370, 0.2909]
"""Noise levels of 3Sources in the paper."""


@pytest.mark.skipif("BJMD_DATA" not in os.environ, reason="real data: BJMD_DATA is not set")
def test_the_printed_update_meets_the_printed_noise_and_the_corrected_one_does_not():
    sources = catalogue.get("3sources").read(fetch.files("3sources")[0])
    off = {}
    for prior in ("printed", "hierarchical"):
        options = {"priors": "paper", "prior": prior, "tol": 1e-3}
        runs = restarts.run("map-bjmd", sources, 6, n_restarts=20, seed=4, jobs=2, **options)
        noise = np.mean([run.noise for run in restarts.best(runs, 5)], axis=0)
        off[prior] = np.abs(noise / PRINTED - 1)
    assert off["printed"].mean() < 0.0015 and off["printed"].max() < 0.0025
    assert off["hierarchical"].min() > 0.0025
