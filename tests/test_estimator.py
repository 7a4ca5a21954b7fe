"""BJMD in scikit-learn's manner: its own checks for one matrix, and the same habits for several
sources.
"""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bjmd
from bjmd import BJMD, cli
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import projection, restarts

BY_NAME = {
    "check_dataframe_column_names_consistency": "features are matched by name, as the command does"
}


@parametrize_with_checks(
    [BJMD(n_components=2, n_init=1), BJMD(n_components=2, n_init=1, inference="map")],
    expected_failed_checks=lambda _: BY_NAME,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:all components have vanished:UserWarning")  # of noise
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def data(make_sources):
    """Samples x features of two sources."""
    return [2 * x.T for x in make_sources(n_samples=(30, 25), noise=(0.1, 0.3)).matrices]


def table(x, second="g1", name=""):
    columns = ["g0", second, *(f"g{k}" for k in range(2, 12))]
    return pd.DataFrame(x, columns=columns, index=[f"{name}{j}" for j in range(len(x))])


@pytest.fixture
def frames(data):
    return {name: table(x, name=name) for name, x in zip("ab", data, strict=True)}


def model(**parameters):
    return BJMD(**{"n_components": 3, "n_init": 2, **parameters})


def assert_same_fit(one, other):
    for name in ("components_", "noise_", "restarts_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(np.vstack(one.memberships_), np.vstack(other.memberships_))


# Fitting several sources


@pytest.mark.parametrize("inference", ["cavi", "map"])
def test_a_fit_is_the_best_restart(data, inference):
    fitted = model(inference=inference, n_init=4, random_state=7)
    assert fitted.fit(data) is fitted
    assert hasattr(fitted, "elbo_") == (inference == "cavi")
    assert inference == "map" or fitted.elbo_ == -fitted.objective_
    results = restarts.run(
        f"{inference}-bjmd", Sources([x.T for x in data]), 3, n_restarts=4, seed=7
    )
    (best,) = restarts.best(results, 1)
    np.testing.assert_array_equal(fitted.components_, best.components.T)
    np.testing.assert_array_equal(fitted.noise_, best.noise)
    np.testing.assert_array_equal(np.vstack(fitted.memberships_), np.hstack(best.memberships).T)
    np.testing.assert_array_equal(fitted.restarts_, [result.objective for result in results])
    assert fitted.objective_ == best.objective == fitted.restarts_.min()
    assert (fitted.n_iter_, fitted.converged_) == (len(best.trace), True)
    assert fitted.decomposition_.seed == best.seed


def test_options_reach_the_fit(data):
    options = {"alpha0": 2.0, "lambda_": 0.5, "a0": 1.0, "b0": 2.0, "tol": 1e-3}
    fitted = model(max_iter=50, n_init=1, **options).fit(data)
    assert fitted.decomposition_.options == options | {"max_sweeps": 50}
    each = model(alpha0=np.array([1.0, 2.0, 3.0]), n_init=1).fit(data)
    assert each.decomposition_.options["alpha0"] == [1.0, 2.0, 3.0]


def test_what_goes_beyond_the_paper_has_attributes(data):
    plain = model(offsets=False).fit(data)
    names = ("offsets_", "feature_precision_", "sample_precision_", "degrees_of_freedom_")
    assert all(getattr(plain, name) is None for name in names)
    data[1] = data[1] + np.arange(12)
    options = {"noise": "feature+sample+robust", "alpha0": "by-source"}
    fitted = model(n_init=1, tol=1e-4, **options).fit(data)
    assert (fitted.offsets_.shape, fitted.feature_precision_.shape) == ((2, 12), (12,))
    assert [len(u) for u in fitted.sample_precision_] == [30, 25]
    assert fitted.degrees_of_freedom_.shape == (2,)
    draws = fitted.sample_posterior(4000).offsets
    np.testing.assert_allclose(draws.mean(axis=0), fitted.offsets_, atol=0.05)
    np.testing.assert_allclose(draws.std(axis=0), fitted.decomposition_.model.offsets_sd, rtol=0.1)
    assert_same_fit(pickle.loads(pickle.dumps(fitted)), fitted)


@pytest.mark.parametrize("inference", ["cavi", "map"])
def test_several_sources_have_offsets_unless_told_otherwise(data, inference):
    shift = np.linspace(-3, 3, 12)
    shifted = [data[0], data[1] + shift]
    several = model(inference=inference).fit(shifted)
    between = several.offsets_[1] - several.offsets_[0]
    np.testing.assert_allclose(between, shift, atol=0.6)
    assert model(inference=inference).fit(data[0]).offsets_ is None
    for options in ({"offsets": False}, {"priors": "paper"}):
        assert model(inference=inference, **options).fit(data).offsets_ is None


def test_sources_that_hold_different_kinds_of_samples_get_a_warning(data):
    """Half of the kinds are in one source only."""
    rng = np.random.default_rng(2)
    components = 3 * rng.laplace(size=(4, 12))
    shares = [rng.dirichlet(alpha, 60) for alpha in ([1, 1, 0.05, 0.05], [0.05, 0.05, 1, 1])]
    apart = [h @ components + 0.1 * rng.standard_normal((60, 12)) for h in shares]
    with pytest.warns(UserWarning, match=r"% of the variance of the memberships lies between"):
        model(n_components=4).fit(apart)
    with warnings.catch_warnings(action="error"):
        model().fit(data)


def test_counts_get_a_warning_before_the_fit(data):
    counts = [np.abs(np.round(10 * x)) for x in data]
    with pytest.warns(UserWarning, match="'source 1' are whole numbers; if .* normalize=True"):
        model().fit(counts)
    with warnings.catch_warnings(action="error"):
        model(normalize=True).fit(counts)
        model().fit(data)


def test_only_the_data_of_the_fit_can_be_checked(data):
    fitted = model().fit(dict(zip("ab", data, strict=True)))
    with pytest.raises(InputError, match="these are not the data that the model was fitted to"):
        fitted.check(data[0])
    assert (fitted.n_features_in_, fitted.source_names_) == (12, ["a", "b"])


def test_a_report_shows_the_last_check_of_its_fit(data, tmp_path):
    fitted = model().fit(data)
    checked = fitted.check(data)
    fitted.report(tmp_path / "out")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out/check.tsv", sep="\t"), checked.table)
    assert str(checked) in (tmp_path / "out/summary.md").read_text()
    fitted.fit(data).report(tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out/check.tsv").exists()


def test_containers_agree(data, frames):
    plain = model().fit(data)
    by_name = model().fit(frames)
    assert_same_fit(by_name, plain)
    assert by_name.source_names_ == ["a", "b"]
    assert list(by_name.feature_names_in_) == [f"g{k}" for k in range(12)]
    for several in (
        tuple(frames.values()),
        [np.asfortranarray(x) for x in data],
        [np.repeat(x, 2, axis=1)[:, ::2] for x in data],
        [frames["a"], frames["b"][frames["b"].columns[::-1]]],
    ):
        assert_same_fit(model().fit(several), plain)
    assert not hasattr(model().fit([pd.DataFrame(x) for x in data]), "feature_names_in_")
    alone = model().fit(data[0])
    for one in (data[:1], {"only": data[0]}, data[0].tolist()):
        assert_same_fit(model().fit(one), alone)
    zeros = [np.where(np.abs(x) < 0.5, 0, x) for x in data]
    dense = model().fit(zeros)
    for container in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.dok_array):
        sparse = model().fit([zeros[0], container(zeros[1])])
        np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-6)
    counts = [np.round(10 * x).astype(int) for x in data]
    assert_same_fit(model().fit(counts), model().fit([x.astype(float) for x in counts]))


def test_data_may_be_read_only(data):
    data[0][3, 4] = np.nan
    for x in data:
        x.flags.writeable = False
    fitted = model().fit(data)
    fitted.impute(data[0], source=0)
    fitted.score(data[1], source=1)


def test_fits_are_reproducible(data):
    once = model(n_init=3).fit(data)
    assert_same_fit(model(n_init=3, n_jobs=2).fit(data), once)
    assert_same_fit(once.fit(data), model(n_init=3).fit(data))
    assert_same_fit(clone(once).fit(data), once)
    assert_same_fit(
        model(random_state=np.random.RandomState(5)).fit(data),
        model(random_state=np.random.RandomState(5)).fit(data),
    )
    assert model(random_state=None).fit(data).decomposition_.seed >= 0


def test_a_refit_forgets(data, frames):
    fitted = model().fit(frames)
    fitted.fit([x[:, :8] for x in data])
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.n_features_in_ == 8
    assert fitted.transform(data[0][:, :8], source=0).shape == (30, 3)


def test_a_fit_that_did_not_converge_says_so(data):
    with pytest.warns(ConvergenceWarning, match="max_sweeps = 2.*raise max_iter or tol"):
        fitted = model(max_iter=2).fit(data)
    assert not fitted.converged_


def test_every_feature_or_the_common_ones(frames):
    a = frames["a"].drop(columns="g0")
    b = frames["b"].drop(columns=["g5", "g7"])
    outer = model().fit({"a": a, "b": b})
    assert list(outer.feature_names_in_) == [*(f"g{k}" for k in range(1, 12)), "g0"]
    np.testing.assert_allclose(outer.transform(a, source="a"), outer.memberships_[0], atol=1e-4)
    complete = b.reindex(columns=outer.feature_names_in_)
    np.testing.assert_array_equal(
        outer.transform(b, source="b"), outer.transform(complete, source="b")
    )
    assert not np.isnan(outer.impute(b, source="b")).any()
    inner = model(join="inner").fit({"a": a, "b": b})
    assert inner.n_features_in_ == 9
    np.testing.assert_allclose(inner.transform(b, source="b"), inner.memberships_[1], atol=1e-4)
    shuffled = a[a.columns[::-1]].assign(unknown=1.0)
    np.testing.assert_array_equal(
        outer.transform(shuffled, source="a"), outer.transform(a, source="a")
    )
    with pytest.raises(ValueError, match="feature names should match"):
        outer.transform(a.add_prefix("other-"), source="a")


# New samples


@pytest.mark.parametrize("inference", ["cavi", "map"])
def test_transform_gives_back_the_memberships(data, inference):
    tol = {"cavi": None, "map": 1e-8}[inference]
    fitted = model(inference=inference, tol=tol, offsets=False).fit(data)
    for c, x in enumerate(data):
        back = fitted.transform(x, source=c)
        for same in ({"source": fitted.source_names_[c]}, {"noise": fitted.noise_[c]}):
            np.testing.assert_array_equal(fitted.transform(x, **same), back)
        for found in (back, fitted.transform(x)):
            np.testing.assert_allclose(found, fitted.memberships_[c], atol=1e-4)


def test_set_output(frames):
    fitted = model().set_output(transform="pandas")
    several = fitted.fit_transform(frames)
    for name, memberships in zip(frames, several, strict=True):
        assert list(memberships.columns) == ["C1", "C2", "C3"]
        assert list(memberships.index) == list(frames[name].index)
    alone = fitted.transform(frames["b"], source="b")
    pd.testing.assert_frame_equal(alone, several[1])


@pytest.fixture
def mixed(data):
    """One matrix with the samples of both sources in random order, and their sources."""
    order = np.random.default_rng(1).permutation(55)
    shifted = [data[0], data[1] + np.linspace(-2, 2, 12)]
    return np.vstack(shifted)[order], np.repeat(["a", "b"], [30, 25])[order]


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, scipy.sparse.csr_array])
def test_one_matrix_and_the_source_of_every_sample(mixed, container):
    x, source = mixed
    names = list(dict.fromkeys(source))
    by_name = model().fit({name: x[source == name] for name in names})
    fitted = model().fit(container(x), sources=source)
    assert fitted.source_names_ == names
    np.testing.assert_allclose(fitted.components_, by_name.components_, rtol=1e-6)
    h = fitted.fit_transform(container(x), sources=source)
    for name in names:
        mine = source == name
        expected = fitted.transform(container(x[mine]), source=name)
        np.testing.assert_allclose(h[mine], expected, atol=1e-12)
    expected = [fitted.score(x[source == name], source=name) for name in names]
    sizes = [(source == name).sum() for name in names]
    assert fitted.score(x, sources=source) == pytest.approx(np.average(expected, weights=sizes))
    weights = source == "a"
    only_a = fitted.score(x, sources=source, sample_weight=weights)
    assert only_a == pytest.approx(fitted.score(x[weights], source="a"))
    unknown = fitted.transform(x, sources=np.where(source == "a", "a", "new"))
    np.testing.assert_allclose(unknown[~weights], fitted.transform(x[~weights]), atol=1e-12)


def test_what_is_expected_of_memberships_is_close_to_the_samples(mixed):
    x, source = mixed
    fitted = model().fit(x, sources=source)
    h = fitted.transform(x, sources=source)
    error = x - fitted.inverse_transform(h, sources=source)
    assert error[source == "a"].std() == pytest.approx(0.2, rel=0.2)
    assert error[source == "b"].std() == pytest.approx(0.6, rel=0.2)
    b = fitted.source_names_.index("b")
    mine = fitted.inverse_transform(h[source == "b"], source="b")
    np.testing.assert_allclose(
        mine, fitted.memberships_[b] @ fitted.components_ + fitted.offsets_[b], atol=1e-3
    )


@pytest.mark.parametrize("routing", [False, True])
def test_several_sources_in_pipelines_and_cross_validation(mixed, routing):
    x, source = mixed
    keys = {"bjmd__n_components": [2, 3]}
    with sklearn.config_context(enable_metadata_routing=routing):
        estimator = model()
        if routing:
            estimator.set_fit_request(sources=True).set_score_request(sources=True)
            estimator.set_transform_request(sources=True)
        steps = make_pipeline(StandardScaler(), estimator)
        given = {"sources": source} if routing else {"bjmd__sources": source}
        search = GridSearchCV(steps, keys, cv=3).fit(x, **given)
    best = search.best_estimator_[-1]
    assert search.best_params_ == {"bjmd__n_components": 3} or not routing
    assert set(best.source_names_) == {"a", "b"} and best.offsets_ is not None
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "options", [{}, {"inference": "map"}, {"noise": "feature+sample", "normalize": True}], ids=str
)
def test_a_model_comes_back_from_its_file_and_from_its_report(data, options, tmp_path):
    positive = {name: table(np.abs(x), name=name) for name, x in zip("ab", data, strict=True)}
    fitted = model(**options).fit(positive)
    fitted.save(tmp_path / "model.npz")
    fitted.report(tmp_path / "out")
    for path in (tmp_path / "model.npz", tmp_path / "out"):
        again = bjmd.load(path)
        assert_same_fit(again, fitted)
        assert again.get_params() == fitted.get_params()
        np.testing.assert_allclose(again.variance_explained_, fitted.variance_explained_, rtol=1e-5)
        new = positive["b"].drop(columns="g3")
        np.testing.assert_array_equal(
            again.transform(new, source="b"), fitted.transform(new, source="b")
        )
    assert not (tmp_path / "out" / "residuals.tsv").exists()
    fitted.report(tmp_path / "out", positive, overwrite=True)
    assert (tmp_path / "out" / "residuals.tsv").exists()
    samples = pd.read_csv(tmp_path / "out" / "memberships_b.tsv", sep="\t", index_col=0)
    assert list(samples.index) == list(positive["b"].index)


def test_a_model_of_labelled_samples_can_be_saved_again(frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frames["a"].T.to_csv("a.csv")
    labels = "".join(f"{sample},{'xy'[j % 2]}\n" for j, sample in enumerate(frames["a"].index))
    (tmp_path / "labels.csv").write_text(labels)
    fit = "fit a.csv -k 3 -o out --restarts 1 --no-figures --labels labels.csv"
    assert cli.main(fit.split()) == 0
    bjmd.load("out").save("model.npz")
    bjmd.load("model.npz").report("again")
    names, again = (
        json.loads((tmp_path / folder / "names.json").read_text()) for folder in ("out", "again")
    )
    assert again["labels"] == names["labels"] and again["class_names"] == ["x", "y"]


def test_a_score_is_the_mean_of_the_log_evidence_of_new_samples(data):
    """What a wrong noise takes away, whichever way it is wrong."""
    fitted = model().fit(data)
    new = np.where(np.arange(data[0].size).reshape(30, 12) % 7, data[0], np.nan)
    scores = []
    for given in ({"source": 0}, {}, {"noise": 0.05}, {"noise": 1.0}):
        scores.append(fitted.score(new, **given))
        expected = projection.log_evidence(fitted.decomposition_, new.T, **given).mean()
        assert scores[-1] == pytest.approx(expected)
    assert min(scores[:2]) > max(scores[2:])


# Uncertainty


def test_posterior_draws_agree_with_the_marginals(data):
    fitted = model().fit(data)
    draws = fitted.sample_posterior(4000, random_state=1)
    posterior = fitted.decomposition_.posterior
    pairs = [(draws.components, posterior.components, True), (draws.noise, posterior.noise, False)]
    pairs += [(h, m, True) for h, m in zip(draws.memberships, posterior.memberships, strict=True)]
    for drawn, marginals, transposed in pairs:
        mean, sd = (part.T if transposed else part for part in (marginals.mean, marginals.sd))
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * sd / np.sqrt(4000)).all()
        np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.15)
    row = np.cov(draws.components[:, :, 4].T)
    wider = posterior.components.widening[4]
    expected = wider[:, None] * posterior.components.covariance()[4] * wider
    np.testing.assert_allclose(row, expected, atol=0.1 * np.diag(row).max())
    np.testing.assert_allclose(draws.memberships[0].sum(axis=2), 1)
    again = fitted.sample_posterior(4000, random_state=1)
    np.testing.assert_array_equal(again.components, draws.components)


# Mistakes


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, lambda a, b: [a.T, b.T], "transpose them if features and samples are swapped"),
        ({}, lambda a, b: [a, b[:, :9]], r"numbers of features .*'source 1' has 12, .* has 9\)"),
        ({}, lambda a, b: [table(a), b], "'source 2' has no feature names but .*'source 1' has"),
        ({}, lambda a, b: [table(x, name=name).T for x, name in ((a, "a"), (b, "b"))], "swapped"),
        ({}, lambda a, b: [table(a, "g0"), table(b)], "'source 1': .* unique column names.*g0"),
        ({}, lambda a, b: {"a": a, "b": b[:0]}, "source 'b': Found array with 0 sample"),
        ({}, lambda a, b: {}, "no source was given"),
        ({}, lambda a, b: [], "no source was given"),
        ({}, lambda a, b: [a, b[0]], r"source 'source 2': Expected 2D .* got 1D array instead"),
        ({}, lambda a, b: [a, np.full((3, 12), np.inf)], "infinite"),
        ({"n_components": 90}, None, "n_components is 90, more than the data allow"),
        ({"join": "left"}, None, "join is 'left'"),
        ({"inference": "gibbs"}, None, "inference is 'gibbs'"),
        ({"random_state": -1}, None, "random_state is -1"),
        ({"n_init": 1, "consensus": True}, None, "n_init, with consensus=True, is 1"),
        ({"noise": "auto"}, None, "noise='auto' was removed .*; leave it out, and let"),
        ({"offsets": "auto"}, None, "offsets='auto' was removed .*; leave it out, or"),
        ({"inference": "map", "noise": "robust"}, None, "'map-bjmd' has no option 'noise'"),
        ({"inference": "map", "alpha0": "learned"}, None, "MAP needs numbers of at least 1"),
    ],
)
def test_mistakes_in_a_fit(data, options, change, message):
    with pytest.raises(InputError, match=message):
        model(**options).fit(data if change is None else change(*data))


@pytest.mark.parametrize(
    ("x", "place", "message"),
    [
        (0, {"sources": ["a", "b"]}, "names the source of 2 samples, but X has 30"),
        (0, {"source": "c"}, "there is no source 'c'; give one of 'source 1', 'source 2'"),
        (0, {"source": 2}, "there is no source 2"),
        (slice(None), {}, "one matrix"),
    ],
)
def test_mistakes_in_new_samples(data, x, place, message):
    fitted = model(max_iter=20, tol=1e-2).fit(data)
    with pytest.raises(InputError, match=message):
        fitted.transform(data[x], **place)
    with pytest.raises(ValueError, match="X has 9 features, but BJMD is expecting 12 features"):
        fitted.transform(data[0][:, :9], source=0)


@pytest.mark.parametrize("cell", ["n/a", "1.5", pd.Timestamp("2020-01-01")])
def test_text_in_a_table_is_found(frames, cell):
    broken = frames["b"].astype(object)
    broken.loc["b3", "g7"] = cell
    with pytest.raises(InputError, match=r"source 'b' has .* in column 'g7', row 'b3'"):
        model().fit({"a": frames["a"], "b": broken})
    with pytest.raises(InputError, match=r"X has .* in column 'g7', row 'b3'"):
        model().fit(frames).transform(broken, source="b")


def test_objects_that_are_numbers_are_numbers(frames):
    tables = {"object": None, "Float64": pd.NA, "float": np.nan}
    fits = []
    for dtype, missing in tables.items():
        table = frames["b"].astype(dtype)
        table.loc["b3", "g7"] = missing
        fits.append(model().fit({"a": frames["a"].astype(dtype), "b": table}))
    for other in fits[1:]:
        assert_same_fit(other, fits[0])


def test_what_needs_a_posterior_says_so(data):
    fitted = model(inference="map").fit(data)
    with pytest.raises(InputError, match="only a fit with inference='cavi' has a posterior"):
        fitted.to_arviz()
    with pytest.raises(InputError, match="has no standard deviations"):
        fitted.impute(data[0], return_std=True)
    assert np.isfinite(fitted.score(data[0]))
