"""The closed form as mathematics: the sweeps of the oracle, the ELBO for every noise model and
prior, with offsets and missing entries, its ascent, and its top.
"""

import copy
from itertools import combinations

import elbo
import numpy as np
import oracle
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, psi
from scipy.stats import gamma, invgamma, multivariate_normal, norm, t

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import cavi, loop, noise, priors, registry
from bjmd.inference.offsets import LEAST_TAU, _better_tau
from bjmd.inference.priors import DirichletBySource, SharedDirichlet
from bjmd.model import Priors
from bjmd.numerics import moments, threads

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]
ALPHA0 = [1.0, 1.1, 2.5]


def priors_of(learned="", alpha0=ALPHA0, **constants):
    """Fixed priors, or learned scales with one concentration, or a Dirichlet by source."""
    constants = {"lambda_": 0.7, "a0": 2.5, "b0": 0.5} | constants
    alpha0 = 1.1 if learned == "learned" else alpha0
    return Priors(alpha0, **constants, learns_alpha=learned, learns_lambda=bool(learned))


def problem(make_sources, share_missing=0.0, seed=0, shift=0.0, **data):
    """Data with missing entries, and with a shift of the second source."""
    rng = np.random.default_rng(seed + 100)
    matrices = [x.copy() for x in make_sources(seed, **data).matrices]
    matrices[-1] += shift * rng.standard_normal((len(matrices[-1]), 1))
    for x in matrices:
        holes = rng.random(x.shape) < share_missing
        holes[0] = False
        holes[:, 0] = False
        x[holes] = np.nan
    return matrices


def algorithm(matrices, priors, name="source", offsets=False, n_components=3, seed=0):
    """The closed form on data as they are."""
    rng = np.random.default_rng(seed)
    factors = noise.parsed(name)
    return cavi.ClosedForm(Sources(matrices), n_components, priors, rng, factors, offsets)


@pytest.mark.parametrize("poor_start", [False, True])
@pytest.mark.parametrize("n_components", [2, 3, 6])
def test_sweeps_are_those_of_the_oracle(make_sources, n_components, poor_start, monkeypatch):
    """With more rows and columns than fit in one block of lanes or one part of the work.  A poor
    start needs the natural gradient.
    """
    monkeypatch.setattr(threads, "PART_OF_WORK", 500)
    matrices = make_sources(n_features=70, n_samples=(70, 20)).matrices
    priors = priors_of(alpha0=0.5 if poor_start else 1.1)
    fast = algorithm(matrices, priors, n_components=n_components)
    rng = np.random.default_rng(0)
    drawn = [rng.dirichlet(np.full(n_components, 0.1), x.shape[1]).T for x in matrices]
    plain = oracle.ClosedForm(matrices, drawn, priors)
    state = fast.start()
    if poor_start:
        plain.g = [rng.uniform(0.3, 6, g.shape) for g in plain.g]
        plain.rho = 10 ** rng.uniform(-6, 6, plain.rho.shape)
        plain.B *= rng.uniform(0.2, 1, 2)
        state = state._replace(columns=plain.g.copy(), ridge=plain.rho.T.copy(), rates=plain.B + 0)
    for _ in range(10):
        state, objective = fast.sweep(state)
        plain.sweep(cavi.COLUMN_TOLERANCE)
        np.testing.assert_allclose(-objective, plain.elbo(), rtol=1e-10)
    for ours, theirs in (
        (state.rows.mean.T, plain.mu),
        (state.rows.second_moment.T, plain.w_size() ** 2),
        (state.ridge.T, plain.rho),
        (np.hstack(state.columns), np.hstack(plain.g)),
        (fast.shapes, plain.A),
        (state.rates, plain.B),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


# The ELBO with all options.


def noisy(make_sources, spread=1.0, freedom=2.0, **data):
    """Data with every kind of noise, a shift, and missing entries."""
    rng = np.random.default_rng(8)
    matrices = problem(make_sources, 0.2, shift=1.0, noise=(0.1, 0.1), **data)
    rough = np.exp(spread * rng.standard_normal((len(matrices[0]), 1)))
    for x in matrices:
        loud = np.exp(spread * rng.standard_normal(x.shape[1]))
        x += spread * rough * loud * rng.standard_t(freedom, x.shape)
    return matrices


@pytest.mark.parametrize("awkward", [False, True])
@pytest.mark.parametrize("learned", ["", "learned", "by-source"])
@pytest.mark.parametrize("name", NOISES)
def test_the_objective_of_every_sweep_is_minus_the_elbo(make_sources, name, learned, awkward):
    """With and without offsets and missing entries; priors are learned from the fifth sweep on."""
    matrices = problem(make_sources, 0.3 * awkward, shift=1.0)
    fast = algorithm(matrices, priors_of(learned), name, offsets=awkward)
    state = fast.start()
    for _ in range(12):
        before = state
        state, objective = fast.sweep(before)
        factors = elbo.Factors(matrices, fast, before, state)
        np.testing.assert_allclose(-objective, factors.elbo(), rtol=1e-10)


PARAMETERS = ["mu", "S", "g", "t.shape", "t.rate", "o", "o_var", "tau"]
WEIGHTS = {
    "feature": ["phi.shape", "phi.rate", "a"],
    "sample": ["u.shape", "u.rate", "a_c"],
    "robust": ["v.rate", "nu"],
}


@pytest.mark.parametrize("learned", ["", "learned", "by-source"])
@pytest.mark.parametrize("name", ["source", *noise.FACTORS])
def test_a_fit_ends_at_the_top_of_the_elbo(make_sources, name, learned, monkeypatch):
    """In random directions, a parabola through three points has its top at the middle one."""
    monkeypatch.setattr(cavi, "COLUMN_TOLERANCE", 1e-14)
    matrices = noisy(make_sources, 0.1, 4.0, n_features=30, n_samples=(40, 30))
    fast = algorithm(matrices, priors_of(learned), name, offsets=True)
    course = loop.Course()
    loop.run(fast, tol=1e-13, max_sweeps=3000, wait=8, momentum_from=10, course=course)
    state, value = fast.settle(course.best)
    factors = elbo.Factors(matrices, fast, state, state)
    np.testing.assert_allclose(value, factors.elbo(), rtol=1e-9)
    paths = PARAMETERS + WEIGHTS.get(name, [])
    paths += [*(["lambda_"] if learned else []), *(["alpha"] if learned == "by-source" else [])]
    rng = np.random.default_rng(0)
    for path in paths:
        up, middle, down = elbos_along(factors, path, rng)
        assert up + down < 2 * middle, path
        assert abs(up - down) < 0.01 * (2 * middle - up - down), path


def elbos_along(factors, path, rng, step=1e-3):
    """The ELBO before, at and behind a parameter, all of whose entries move by themselves."""
    *owner, name = path.split(".")
    value = getattr(getattr(factors, *owner) if owner else factors, name)
    direction = rng.standard_normal(np.shape(value))
    if name == "S":
        direction += np.swapaxes(direction, 1, 2)
    for length in (step, 0, -step):
        moved = copy.deepcopy(factors)
        owned = getattr(moved, *owner) if owner else moved
        setattr(owned, name, value * np.exp(length * direction))
        yield moved.elbo()


def test_the_elbo_is_the_mean_of_draws_from_the_factors(make_sources):
    """ln p - ln q over draws of W, H, s2, phi, u and o, with densities of SciPy; the bound on the
    Laplace prior is a number.
    """
    matrices = noisy(make_sources, n_samples=(9, 8))
    fast = algorithm(matrices, priors_of(), "feature+sample", offsets=True)
    state = fast.start()
    for _ in range(12):
        before = state
        state, _ = fast.sweep(before)
    plain = elbo.Factors(matrices, fast, before, state)
    rng = np.random.default_rng(0)
    n = 20_000
    values = np.zeros(n)

    def draw(q, p):
        nonlocal values
        draws = q.rvs((n, *np.shape(q.mean())), random_state=rng)
        values += (p.logpdf(draws) - q.logpdf(draws)).reshape(n, -1).sum(axis=1)
        return draws

    def gammas(q, a):
        return draw(gamma(q.shape, scale=1 / q.rate), gamma(a, scale=1 / a))

    s2 = draw(
        invgamma(plain.t.shape, scale=plain.t.rate),
        invgamma(plain.priors.a0, scale=plain.priors.b0),
    )
    phi = gammas(plain.phi, plain.a)
    u = gammas(plain.u, plain.a_c[plain.c])
    o = draw(norm(plain.o, np.sqrt(plain.o_var)), norm(scale=np.sqrt(plain.tau)[:, None]))
    values -= (plain.w_size / plain.lambda_ + np.log(2 * plain.lambda_)).sum()
    w = np.empty((n, *plain.mu.shape))
    for i, (mu, covariance) in enumerate(zip(plain.mu, plain.S, strict=True)):
        w[:, i] = rng.multivariate_normal(mu, covariance, n)
        values -= multivariate_normal(mu, covariance).logpdf(w[:, i])
    for j, (g, alpha) in enumerate(zip(plain.g, plain.alpha[plain.c], strict=True)):
        # Gamma(a) = Gamma(a + 1) U^(1/a), which does not underflow at small a
        log_h = np.log(rng.gamma(g + 1, size=(n, 3))) + np.log(rng.random((n, 3))) / g
        log_h -= np.logaddexp.reduce(log_h, axis=1, keepdims=True)
        for sign, a in ((1, alpha), (-1, g)):
            values += sign * (gammaln(a.sum()) - gammaln(a).sum() + log_h @ (a - 1))
        c = plain.c[j]
        seen = plain.seen[:, j]
        mean = (w @ np.exp(log_h)[:, :, None])[:, :, 0] + o[:, c]
        sd = np.sqrt(s2[:, [c]] / (phi * u[:, [j]]))
        values += norm.logpdf(plain.x[seen, j], mean[:, seen], sd[:, seen]).sum(axis=1)
    standard_error = values.std() / np.sqrt(n)
    assert standard_error < 0.1
    assert abs(values.mean() - plain.elbo()) < 4 * standard_error


def test_the_robust_prior_is_students_t():
    """With v integrated out, of nu degrees of freedom and the scale that is reported."""
    for nu in (0.7, 3.0, 40.0):
        prior = gamma(0.5 * nu, scale=2 / (nu + 1))
        for x in (0.0, 1.0, 5.0):
            density = quad(
                lambda v, x=x, p=prior: norm.pdf(x, scale=v**-0.5) * p.pdf(v), 0, np.inf, limit=300
            )[0]
            expected = t.pdf(x, nu, scale=noise.RobustEntries(None, 0.0, nu).scale)
            np.testing.assert_allclose(density, expected, rtol=1e-5)


# What is learned, beyond what sweeps of small data meet.


@pytest.mark.parametrize("start", [0.5, 300.0])
@pytest.mark.parametrize("concentration", [0.1, 0.8, 60.0])
@pytest.mark.parametrize("size", [2, 3])
def test_learned_dirichlets_are_at_the_top_of_their_densities(size, concentration, start, rng):
    """Of columns that are known well; the last component is hardly used in the second source."""
    columns = [60 * rng.dirichlet(np.full(size, concentration), n).T + 0.3 for n in (30, 50)]
    columns[1][-1] = 1e-2

    def value(alpha, sources):
        g = np.hstack(sources)
        normaliser = gammaln(alpha.sum()) - gammaln(alpha).sum()
        return g.shape[1] * normaliser + alpha @ (psi(g) - psi(g.sum(axis=0))).sum(axis=1)

    log_sums = [(psi(g) - psi(g.sum(axis=0))).sum(axis=0) for g in columns]
    shared, _ = SharedDirichlet(start, size).updated(columns, log_sums)
    by_source, _ = DirichletBySource([np.full(size, start)] * 2).updated(columns, log_sums)
    assert shared.alpha(0).min() >= 0.5 and min(a.min() for a in by_source.alphas) >= 0.01
    for length in (1e-3, 0.1, 1.0, -1e-3, -0.1, -1.0):
        alpha = shared.alpha(0)
        other = np.maximum(alpha * np.exp(length), 0.5)
        assert value(other, columns) <= value(alpha, columns) + 1e-9
        for c, g in enumerate(columns):
            alpha = by_source.alpha(c)
            for direction in rng.standard_normal((20, size)):
                other = np.maximum(alpha * np.exp(length * direction), 0.01)
                assert value(other, [g]) - other.sum() <= value(alpha, [g]) - alpha.sum() + 1e-9


def test_one_component_has_no_concentration_to_learn():
    for prior in (SharedDirichlet(1.1, 1), DirichletBySource([np.array([1.1])])):
        learned, gain = prior.updated([np.full((1, 5), 3.0)], [np.zeros(5)])
        assert learned.alpha(0) == [1.1] and gain == 0


@pytest.mark.parametrize("start", [LEAST_TAU, 1e-2, 1e3])
@pytest.mark.parametrize("width", [0.0, 0.02, 0.3, 10.0])
def test_the_variance_of_offsets_is_a_maximum_that_no_start_misses(width, start):
    """ln p(sums | tau) is that of offsets of some width, seen with different precision."""
    rng = np.random.default_rng(2)
    known = rng.uniform(20, 200, 300)
    sums = known * (width * rng.standard_normal(300) + rng.standard_normal(300) / np.sqrt(known))

    def value(tau):
        return norm.logpdf(sums / known, scale=np.sqrt(tau + 1 / known)).sum()

    found = start
    for _ in range(40):
        before = found
        found = _better_tau(sums, known, before)
        assert value(found) >= value(before) - 1e-9
        assert abs(np.log(found / before)) < 3 + 1e-12
    assert found >= 1e-12
    assert value(found) >= max(map(value, np.geomspace(LEAST_TAU, 1e4, 500))) - 1e-6


@pytest.mark.parametrize("start", [0.03, 0.05, 0.2])
def test_the_variance_of_offsets_takes_newtons_step(start, rng):
    """By the first two derivatives of ln p(sums | tau) in ln tau, which differences give."""
    known = rng.uniform(20, 200, 300)
    sums = known * (0.3 + 1 / np.sqrt(known)) * rng.standard_normal(300)

    def value(log_tau):
        return norm.logpdf(sums / known, scale=np.sqrt(np.exp(log_tau) + 1 / known)).sum()

    at = np.log(start)
    before, there, after = (value(at + step) for step in (-1e-3, 0.0, 1e-3))
    slope = (after - before) / 2e-3
    bend = (after - 2 * there + before) / 1e-6
    assert bend < 0  # or there is no such step
    found = np.log(_better_tau(sums, known, start)) - at
    np.testing.assert_allclose(found, -slope / bend, rtol=1e-3)


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 1.0, 1e6])
def test_nothing_gets_more_precise_than_the_bound(scale):
    """Whatever the errors are, none included, and however often a is learned from them."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 40, 30).astype(float)
    q = noise.Gammas.start(counts)
    for _ in range(200):
        errors = scale * counts * rng.exponential(size=30)
        q = q.updated(lambda errors=errors: errors)
        assert (q.mean <= 10 * (1 + 1e-12)).all()
        assert (q.mean > 0).all()
        assert np.isfinite(q.elbo()).all()


def test_weights_end_at_the_ends_of_their_range():
    """Ten times as precise as the rest if half of the errors are zero and the others are not, and
    all alike if errors differ no more than normal ones.
    """
    counts = np.full(30, 40.0)
    q = noise.Gammas.start(counts)
    assert np.ptp(q.mean) == 0
    uneven = q.updated(lambda: np.where(np.arange(30) % 2, 0.0, 1e9))
    np.testing.assert_allclose(uneven.mean.max(), 10)
    assert q.updated(lambda: counts).a == 1e6


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_maximum_is_found_whatever_the_scale_and_the_start(scale):
    """The top of a parabola in ln x, or the end that is nearer; what is no worse is kept."""
    for top, expected in ((2.0, 2.0), (1e-9, 1e-3), (1e9, 1e3)):

        def value(x, top=top):
            return -scale * np.log(x / top) ** 2

        def slope(x, top=top):
            return -2 * scale * np.log(x / top) / x

        for at in (1e-3, 1.5, 1e3):
            found = noise.maximum(value, slope, at, 1e-3, 1e3)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert noise.maximum(value, slope, top, 1e-3, 1e3) == top
        for broken in (1e-3, 1e3):

            def no_number(x, broken=broken):
                return np.nan if np.isclose(x, broken) else slope(x)

            assert noise.maximum(value, no_number, 1.5, 1e-3, 1e3) == 1.5


def test_a_noise_model_is_named_by_its_factors():
    for name, factors in (("source", ()), ("feature", ("feature",)), ("robust+sample", None)):
        assert noise.parsed(name) == (tuple(name.split("+")) if factors is None else factors)
    for name in ("feature+feature", "source+feature", "normal", ""):
        with pytest.raises(InputError, match="it must be source, feature, sample or robust"):
            noise.parsed(name)


def test_the_start_knows_nothing_of_the_data(make_sources):
    """docs/derivation.md, 4.9: 20 samples' worth of random memberships, t of 10 degrees of freedom,
    offsets of the width of the data.
    """
    fast = algorithm(make_sources().matrices, priors_of(), "robust", offsets=True)
    state = fast.start()
    for g in state.columns:
        np.testing.assert_allclose(g.sum(axis=0), sum(ALPHA0) + 20)
    assert [entries.nu for entries in state.entries] == [10, 10]
    for offset in state.offsets:
        assert (offset.mean == 0).all() and (offset.variance == 0).all() and offset.tau == 1


def test_degrees_of_freedom_end_at_the_ends_of_their_range():
    """docs/model.md: 0.5 <= nu <= 200.  The one for residuals of every size, the other for none."""
    for mean, log, end in ((1e-6, 50.0, 0.5), (1.0, 0.0, 200.0)):
        nu = 10.0
        for _ in range(500):
            nu = noise.StudentT(nu, mean, log, 1).learned()
        assert nu == end


@pytest.mark.parametrize("residual", [0.1, 1e3, 1e15, 1e25])
def test_logarithms_of_many_factors_at_once_do_not_overflow(residual):
    """sum_i ln(1 + w r_i^2 / (nu + 1)) of every column, however large its residuals are."""
    n_rows = 400
    columns = np.zeros((3, 2))
    x = np.outer(np.linspace(0.5, 1.5, n_rows), [residual, -2 * residual])
    rows = np.linspace(1, 2, n_rows)
    moments.downweighted(
        x,
        np.zeros(n_rows),
        np.zeros_like(x),
        3.0,
        rows,
        np.ones(2),
        4.0,
        np.empty_like(x),
        np.zeros(0),
        columns,
    )
    expected = np.log1p(3.0 * rows[:, None] * x**2 / 5.0).sum(axis=0)
    np.testing.assert_allclose(columns[2], expected, rtol=1e-10)


# Ascent, and what a fit reports.


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_no_plain_sweep_lowers_the_elbo(make_sources, name, offsets, missing):
    """Without the loop, whose safeguard would hide it."""
    rng = np.random.default_rng(3)
    for trial, learned in enumerate(["", "learned", "learned", "by-source"]):
        n_components = [3, 1, 5, 2][trial]
        matrices = problem(
            make_sources,
            missing,
            seed=trial,
            shift=float(rng.choice([0.0, 0.3, 3.0])),
            n_features=int(rng.integers(8, 25)),
            n_samples=rng.integers(5, 30, size=2),
            noise=10 ** rng.uniform(-6, 2, size=2),
        )
        scale = float(10 ** rng.uniform(-1, 1))
        priors = priors_of(learned, 1.1, lambda_=scale, a0=0.01, b0=0.01)
        fast = algorithm(matrices, priors, name, offsets, n_components, trial)
        state = fast.start()
        last = -np.inf
        for sweep in range(40):
            state, objective = fast.sweep(state)
            assert -objective >= last - 1e-9 * abs(last), f"trial {trial}, sweep {sweep}"
            last = -objective


@pytest.mark.parametrize("name", NOISES)
def test_the_posterior_of_the_noise_is_about_the_noise_of_the_result(make_sources, name):
    """In the unit of the data, 30 here, and at the scale of the t for robust noise."""
    sources = Sources([30 * x for x in make_sources().matrices])
    result = registry.fit("cavi-bjmd", sources, 3, noise=name, max_sweeps=3)
    posterior = result.posterior.noise
    np.testing.assert_allclose(np.sqrt(posterior.rate / posterior.shape), result.noise)


@pytest.mark.parametrize(
    ("prior", "floor"),
    [
        (priors.FixedDirichlet(np.array([0.2, 3.0])), None),
        (priors.SharedDirichlet(0.7, 2), 0.5),
        (priors.DirichletBySource([np.array([0.3, 2.0]), np.ones(2)]), 0.01),
    ],
    ids=["fixed", "shared", "by source"],
)
def test_momentum_moves_what_is_learned_of_the_dirichlet_but_not_below_its_floor(prior, floor):
    moved = prior.at(2 * prior.moved)
    lowest = prior.at(1e-9 * prior.moved)
    for c in range(2):
        factor = 1 if floor is None else 2
        np.testing.assert_allclose(moved.alpha(c), factor * prior.alpha(c))
        assert floor is None or (lowest.alpha(c) == floor).all()


def test_a_state_survives_its_vector(make_sources):
    """What momentum moves is all there, and comes back."""
    fast = algorithm(make_sources().matrices, priors_of(), "robust")
    state, _ = fast.sweep(fast.start())
    again = state.at(state.vector())
    for part, same in zip(state._positive(), again._positive(), strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-13)
