"""Where a fit begins; the whole randomness of a MAP or closed-form fit is here."""

import numpy as np

CONCENTRATION = 0.1
"""Nearly one component per sample.

Memberships that are more spread out give K almost equal first components, the mean of the data,
which take more sweeps to break apart.  Starts from MAP or like k-means++ end at the same ELBO
within a few nats, so the simplest one is kept.
"""


def random_memberships(n_components, n_samples, rng):
    """K x N random columns on the simplex."""
    return np.ascontiguousarray(rng.dirichlet(np.full(n_components, CONCENTRATION), n_samples).T)
