"""What every baseline has to do."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kmeans", {}),
        ("jnmf", {}),
        ("inmf", {}),
        ("intnmf", {}),
        ("semi-nmf", {}),
        ("sparse-nmf", {}),
        ("ionmf", {}),
        ("bpca", {}),
        ("bpmf", {"burn_in": 2, "n_draws": 4}),
        ("jmd", {}),
        # few sweeps, so that the last bits of the products change no decision of the sampler
        ("bnmf", {"burn_in": 2, "n_draws": 4}),
    ],
)
def test_sparse_equals_dense(nonnegative, name, options):
    cut = [np.where(x > 0.5, x, 0.0) for x in nonnegative.matrices]
    dense, sparse = (
        registry.fit(name, Sources([make(x) for x in cut]), 3, **options)
        for make in (np.asarray, scipy.sparse.csr_array)
    )
    np.testing.assert_allclose(dense.components, sparse.components, atol=1e-6)
    np.testing.assert_allclose(dense.objective, sparse.objective, rtol=1e-8)


@pytest.mark.parametrize("name", ["jnmf", "inmf", "intnmf", "ionmf", "semi-nmf"])
def test_the_error_never_rises(make_sources, name):
    for trial in range(15):
        sources = make_sources(trial, n_samples=(20, 15))
        if name != "semi-nmf":
            sources = Sources([np.abs(x) for x in sources.matrices])
        weight = {"inmf": "lambda_", "ionmf": "orthogonality"}.get(name)
        options = {weight: [1e-6, 0.1, 5.0][trial % 3]} if weight else {}
        options |= {"tol": 1e-300, "max_sweeps": 60}
        result = registry.fit(name, sources, 1 + trial % 5, seed=trial, **options)
        assert (np.diff(result.trace) <= 1e-9 * result.trace[:-1]).all(), f"trial {trial}"
        assert min(h.min() for h in result.memberships) >= 0
        assert name == "semi-nmf" or result.components.min() >= 0


@pytest.mark.parametrize("name", ["jnmf", "inmf", "intnmf", "semi-nmf", "jmd", "glad", "kmeans"])
def test_running_out_of_sweeps_is_not_convergence(nonnegative, name):
    result = registry.fit(name, nonnegative, 4, seed=1, max_sweeps=1)
    assert not result.converged
    assert result.reason == "stopped at max_sweeps = 1"


@pytest.mark.parametrize("name", ["jnmf", "bnmf", "intnmf", "inmf"])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_negative_entries_are_refused(nonnegative, name, make):
    bad = nonnegative.matrices[1].copy()
    bad[2, 3] = -1e-9
    with pytest.raises(InputError) as refusal:
        registry.fit(name, Sources([make(nonnegative.matrices[0]), make(bad)]), 3)
    assert str(refusal.value) == (
        f"method '{name}' needs non-negative data but source 'source 2' has negative entries; "
        "shift, clip or exponentiate it first"
    )
