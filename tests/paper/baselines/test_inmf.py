import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd_paper.baselines.inmf import IntegrativeNMF
from bjmd_paper.baselines.joint_nmf import JointNMF, random_factors


def settled(sources, lambda_, n_sweeps, seed=0):
    """The state after many sweeps, with V, which a result does not have; and the error."""
    algorithm = IntegrativeNMF(sources, *random_factors(sources, 3, seed), lambda_)
    state = algorithm.start()
    for _ in range(n_sweeps):
        state, error = algorithm.sweep(state)
    return state.wt.T, [vt.T for vt in state.vts], algorithm.memberships(state), error


def test_the_error_is_what_the_formula_says(nonnegative):
    w, vs, hs, error = settled(nonnegative, 2.0, 5)
    literal = sum(
        ((x - (w + v) @ h) ** 2).sum() + 2.0 * ((v @ h) ** 2).sum()
        for x, v, h in zip(nonnegative.matrices, vs, hs, strict=True)
    )
    np.testing.assert_allclose(error, literal, rtol=1e-10)
    assert max(v.max() for v in vs) > 0.01 * w.max(), (
        "the sources differ, so that V has something to say"
    )


def test_the_solution_is_stationary(nonnegative):
    """Slopes are zero where a factor is positive and not negative where it is zero."""
    lambda_ = 2.0
    w, vs, hs, _ = settled(nonnegative, lambda_, 5000)
    errors = [(w + v) @ h - x for x, v, h in zip(nonnegative.matrices, vs, hs, strict=True)]
    pairs = [(w, sum(e @ h.T for e, h in zip(errors, hs, strict=True)))]
    for v, h, e in zip(vs, hs, errors, strict=True):
        pairs += [(v, (e + lambda_ * v @ h) @ h.T), (h, (w + v).T @ e + lambda_ * v.T @ v @ h)]
    for factor, slope in pairs:
        assert np.abs(slope[factor > 0]).max(initial=0) <= 1e-4
        assert slope[factor == 0].min(initial=0) >= -1e-4


def test_a_large_lambda_gives_joint_nmf_sweep_by_sweep(nonnegative):
    *_, error = settled(nonnegative, 1e12, 20, seed=3)
    pooled = nonnegative.concatenated()
    joint = JointNMF(pooled, *random_factors(pooled, 3, 3))
    state = joint.start()
    for _ in range(20):
        state, expected = joint.sweep(state)
    np.testing.assert_allclose(error, expected, rtol=1e-8)


def test_private_versions_explain_what_one_version_cannot(rng):
    """With hardly a penalty, sources that share nothing but K are fitted exactly."""
    sources = Sources([rng.random((12, 3)) @ rng.random((3, 30)) for _ in range(2)])
    free = registry.fit("inmf", sources, 3, lambda_=1e-9, tol=1e-12, max_sweeps=2000)
    joint = registry.fit("jnmf", sources, 3)
    assert free.objective < 0.01 * joint.objective
