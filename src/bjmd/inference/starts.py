"""Where fits start: random memberships, or those of clusters of samples.

The paper's model, and the methods that it is compared with, start from random memberships.  There
all components begin as the mean of the data, and take time to break apart.  With the priors of the
data, the closed form starts from clusters: it ends at the same optima, mostly after fewer sweeps.
"""

import numpy as np

from bjmd.data.matrix import cut

CONCENTRATION = 0.1
"""Of random memberships: nearly one component per sample.  More even ones take more sweeps."""
IN_CLUSTER = 0.9
"""The membership of a sample in the component of its cluster; the others share the rest."""
MOST_POINTS = 2**14
"""The samples that are clustered; of more, an even share is."""
ROUNDS = 10
"""Of moving every centre to the mean of its samples."""


def random_memberships(n_components, n_samples, rng):
    """K x N random columns on the simplex."""
    return np.ascontiguousarray(rng.dirichlet(np.full(n_components, CONCENTRATION), n_samples).T)


def clustered_memberships(views, n_components, rng, shifted):
    """K x N_c memberships of every source, from K-means in K random directions.

    The directions are the range of Z R for a random R, so that most lie where samples differ most.
    K-means begins with random centres that are far from each other (k-means++).  If sources are
    `shifted`, samples are compared by how they differ from the mean of their source.
    """
    weights = (rng.standard_normal((n_components, view.shape[1])) for view in views)
    image = sum(
        view.times_memberships(_around_mean(r) if shifted else r)
        for view, r in zip(views, weights, strict=True)
    )
    basis = np.ascontiguousarray(np.linalg.qr(image.T)[0].T)
    points = [view.times_components(basis) for view in views]
    if shifted:
        points = [_around_mean(z) for z in points]
    n_points = sum(z.shape[1] for z in points)
    shared = np.hstack(points)[:, :: -(-n_points // MOST_POINTS)]
    centres = _centres(np.ascontiguousarray(shared), n_components, rng)
    return [_memberships(centres, z) for z in points]


def _around_mean(z):
    z -= z.mean(axis=1, keepdims=True)
    return z


def _memberships(centres, points):
    """IN_CLUSTER of every sample belongs to the component of its nearest centre."""
    n_components = centres.shape[1]
    n_points = points.shape[1]
    if n_components == 1:
        return np.ones((1, n_points))
    memberships = np.full((n_components, n_points), (1 - IN_CLUSTER) / (n_components - 1))
    for part in cut(n_points, 1, MOST_POINTS):
        nearest = _squared_distances(centres, points[:, part]).argmin(axis=0)
        np.put_along_axis(memberships[:, part], nearest[None], IN_CLUSTER, axis=0)
    return memberships


def _centres(points, n_centres, rng):
    """The centres of clusters, directions x K: those of k-means++, then ROUNDS of Lloyd's."""
    n_points = points.shape[1]
    centres = points[:, [rng.integers(n_points)]]
    for _ in range(1, n_centres):
        distances = _squared_distances(centres, points).min(axis=0)
        total = distances.sum()
        # points that are all the same have no distance
        chosen = rng.choice(n_points, p=distances / total if total > 0 else None)
        centres = np.column_stack([centres, points[:, chosen]])
    for _ in range(ROUNDS):
        belongs = np.eye(n_centres)[_squared_distances(centres, points).argmin(axis=0)]
        size = belongs.sum(axis=0)
        centres = np.where(size > 0, points @ belongs / np.maximum(size, 1), centres)
    return centres


def _squared_distances(centres, points):
    """K x points."""
    squares = (centres**2).sum(axis=0)[:, None] + (points**2).sum(axis=0)
    return np.maximum(squares - 2 * centres.T @ points, 0.0)
