import numpy as np
import pytest
import scipy.sparse
from oracle import negative_log_joint
from scipy.stats import invgamma, laplace, norm
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.model import Priors, dirichlet_terms


def literal_objective(matrices, w, memberships, noise_variances, alpha0, lambda_, a0, b0):
    """Minus the log of the joint density, term by term from the distributions themselves."""
    total = -laplace.logpdf(w, scale=lambda_).sum()
    for x, h, s2 in zip(matrices, memberships, noise_variances, strict=True):
        total -= norm.logpdf(x, w @ h, np.sqrt(s2)).sum() + invgamma.logpdf(s2, a0, scale=b0)
        total -= ((alpha0 - 1)[:, None] * np.log(h)).sum()
    return total


def test_priors_in_another_unit():
    """lambda_ is in the unit of the data and b0 in its square, unless they are relative to the data
    already.
    """
    given = Priors(lambda_=6.0, b0=18.0).in_unit(3.0)
    assert (given.lambda_, given.b0, given.a0, given.alpha0) == (2.0, 2.0, Priors.a0, Priors.alpha0)
    assert Priors(lambda_=6.0, b0=18.0, relative=("lambda_", "b0")).in_unit(3.0) == Priors(
        lambda_=6.0, b0=18.0, relative=("lambda_", "b0")
    )


def test_objective_is_the_negative_log_joint_up_to_a_constant(make_sources, rng):
    sources = make_sources()
    alpha0 = np.array([1.1, 2.0, 1.5])
    priors = Priors(alpha0, lambda_=0.7, a0=2.0, b0=3.0)
    differences = []
    for _ in range(5):
        w = rng.standard_normal((12, 3))
        memberships = [rng.dirichlet(np.ones(3), n).T for n in sources.n_samples]
        s2 = rng.uniform(0.5, 3, size=2)
        ours = negative_log_joint(sources.matrices, w, memberships, s2, priors)
        differences.append(
            ours - literal_objective(sources.matrices, w, memberships, s2, alpha0, 0.7, 2.0, 3.0)
        )
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)


def test_a_flat_dirichlet_adds_nothing_to_the_objective(rng):
    h = rng.dirichlet(np.ones(3), 9).T
    assert dirichlet_terms(h, np.ones(3)) == 0
    alpha0 = np.array([1.0, 2.0, 1.5])
    np.testing.assert_allclose(dirichlet_terms(h, alpha0), -np.log(h[1] * h[2] ** 0.5).sum())


def test_sparse_stays_sparse_with_indices_of_32_bits_where_they_suffice():
    wide = scipy.sparse.csc_array(np.eye(3))
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    sources = Sources([wide, wide])
    for x in (*sources.matrices, *sources.concatenated().matrices):
        assert (x.indices.dtype, x.indptr.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(sources.matrices[0].toarray(), np.eye(3))


def test_norms_have_the_same_bits_on_any_number_of_blas_threads(rng):
    # long enough for BLAS to share the work out, and then to round differently
    x = rng.standard_normal((200, 300))
    norms = []
    for n_threads in (1, 2, 3, 4):
        with threadpool_limits(n_threads):
            norms.append(Sources([x]).squared_norms[0])
    assert len(set(norms)) == 1


X = np.ones((3, 4))
GAP = np.where(np.arange(4) == 1, np.nan, X)
BAD_SOURCES = {
    "empty sample": (
        lambda: Sources([X, GAP]),
        "sample 'source 2-sample 2' of source 'source 2' has no observed entry; remove",
    ),
    "empty features": (
        lambda: Sources([np.where(np.arange(3)[:, None] > 0, np.nan, X)]),
        "feature 'feature 2' has no observed entry in any source, nor have 1 others; remove",
    ),
    "none": (lambda: Sources([]), "no source was given"),
    "bare matrix": (lambda: Sources(X), r"wrap a single matrix as Sources\(\[X\]\)"),
    "feature counts": (
        lambda: Sources([X, X[:2]]),
        "source 'source 2' has 2 features but 'source 1' has 3",
    ),
    "empty": (lambda: Sources([X, X[:, :0]]), r"source 'source 2' is empty \(3 x 0\)"),
    "one dimension": (lambda: Sources([X[0]]), "has 1 dimensions"),
    "infinite": (
        lambda: Sources([np.where(np.eye(3, 4), np.inf, 1.0)]),
        "holds 3 infinite entries, the first at feature 'feature 1', sample 'source 1-sample 1'",
    ),
    "infinite, sparse": (
        lambda: Sources([scipy.sparse.csc_array([[0, 0], [0, np.inf]])]),
        "holds 1 infinite entry, at feature 'feature 2', sample 'source 1-sample 2'",
    ),
    "overflow": (lambda: Sources([X * 1e200]), "squares overflow; rescale"),
    "names": (lambda: Sources([X, X], names=["a", "a"]), "names has 'a' more than once"),
    "a path": (
        lambda: Sources("a.tsv"),
        "takes a list of matrices, one per source, not a str; wrap a single matrix",
    ),
    "a dictionary": (lambda: Sources({"a": X}), "not a dict"),
    "text": (
        lambda: Sources([X.astype(str)]),
        "source 'source 1' holds text; it must hold real numbers only",
    ),
    "name count": (
        lambda: Sources([X, X], names=["a"]),
        "the length of names is 1 but the number of sources is 2",
    ),
    "labels": (
        lambda: Sources([X], labels=[np.ones((2, 3))]),
        r"labels of source 'source 1' have shape \(2, 3\)",
    ),
    "alpha0": (
        lambda: Priors(alpha0=0.0),
        "alpha0 is 0.0; it must be a number above 0, or one for each component, or 'learned'",
    ),
    "alpha0 vector": (lambda: Priors(alpha0=[1.0, np.nan]), "alpha0 is"),
    "alpha0 matrix": (lambda: Priors(alpha0=[[1.0, 2.0]]), "alpha0 is"),
    "alpha0 length": (
        lambda: Priors(alpha0=[1.0, 1.0]).dirichlet(3),
        "the length of alpha0 is 2 but there are to be 3 components",
    ),
    "lambda": (
        lambda: Priors(lambda_=0),
        "lambda_ is 0; it must be a finite number greater than 0",
    ),
    "b0 as YAML reads it": (
        lambda: Priors(b0="1e-5"),
        r"b0 is '1e-5'; .* \(it is text; YAML reads 1.0e-05 as a number",
    ),
    "b0 as --config reads it": (
        lambda: Priors(b0="1.0e-05"),
        r"b0 is '1.0e-05'; .* \(it is text; .*braces after --config, so use --configfile\)$",
    ),
    "b0 that is no number": (
        lambda: Priors(b0="auto"),
        "b0 is 'auto'; it must be a finite number greater than 0$",
    ),
    "escape codes": (
        lambda: Sources([X], names=["\x1b[31mred"]),
        "names has .*, which holds a character that",
    ),
    "indices": (
        lambda: Sources(
            [
                scipy.sparse.csr_array(
                    (np.ones(1), np.array([-5]), np.array([0, 1, 1])), shape=(2, 4)
                )
            ]
        ),
        "source 'source 1' is a damaged sparse matrix",
    ),
    "K": (
        lambda: Sources([X]).require_components(0),
        "n_components is 0; it must be a whole number of at least 1",
    ),
    "large K": (
        lambda: Sources([X]).require_components(5),
        "n_components is 5, more than the data allow",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD_SOURCES.values(), ids=BAD_SOURCES)
def test_bad_input_is_refused_in_one_sentence(make, message):
    with pytest.raises(InputError, match=message) as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_with_priors_of_the_data_everything_is_learned_unless_it_is_given():
    default = Priors.of("data")
    assert (default.learns_alpha, default.learns_lambda) == ("learned", True)
    assert default.relative == ("lambda_", "b0")
    assert Priors.of("data", alpha0="by-source").learns_alpha == "by-source"
    given = Priors.of("data", alpha0=0.5, lambda_=2.0)
    assert (given.learns_alpha, given.learns_lambda) == ("", False)
    assert (given.alpha0, given.lambda_, given.relative) == (0.5, 2.0, ("b0",))
    assert (default.lambda_, default.a0, default.b0) == (1.5, 0.01, 0.01)
    assert Priors.of("paper") == Priors() == Priors(1.1, 1.0, 0.01, 0.01)
