import dataclasses
import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer

from bjmd.data.sources import Sources
from bjmd.inference import restarts
from bjmd.report import figures, tables
from bjmd.report.style import COLOURS
from bjmd.results.decomposition import Decomposition


def made_up(
    n_components, n_samples=(40, 30), n_features=15, seed=0, n_classes=0, length=1, **fields
):
    """Names and labels, and a result with random numbers in it, in no time at all."""
    rng = np.random.default_rng(seed)
    memberships = [rng.dirichlet(np.full(n_components, 0.3), n).T for n in n_samples]
    sources = Sources(
        [np.ones((n_features, n)) for n in n_samples],
        names=[f"{'cohort ' * length}{c + 1}" for c in range(len(n_samples))],
        feature_names=[f"{'gene ' * length}{i + 1}" for i in range(n_features)],
        labels=[np.eye(n_classes)[:, h.argmax(axis=0) % n_classes] for h in memberships]
        if n_classes
        else None,
        class_names=[f"{'class ' * length}{k + 1}" for k in range(n_classes)]
        if n_classes
        else None,
    )
    given = {
        "noise": 1 + rng.random(len(n_samples)),
        "objective": 5.0,
        "trace": np.array([9.0, 6.0, 5.0]),
        **fields,
    }
    components = rng.laplace(size=(n_features, n_components))
    result = Decomposition(
        components,
        memberships,
        converged=True,
        reason="",
        seconds=0.0,
        method="map-bjmd",
        seed=seed,
        **given,
    )
    return sources, result


@pytest.fixture(scope="module")
def fitted():
    """Data with two sources, and four restarts of the closed form on them."""
    rng = np.random.default_rng(3)
    components = rng.laplace(size=(12, 3))
    matrices = [
        components @ rng.dirichlet(np.ones(3), n).T + sd * rng.standard_normal((12, n))
        for n, sd in ((25, 0.3), (15, 1.0))
    ]
    sources = Sources(matrices)
    runs = restarts.run("cavi-bjmd", sources, 3, n_restarts=4)
    return sources, restarts.best(runs, 4)


def images(ax):
    return [np.asarray(image.get_array()) for image in ax.get_images()]


def labels_of(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_the_heat_map_has_samples_by_strongest_component_and_the_purest_first():
    sources, result = made_up(4)
    for ax, h, name in zip(
        figures.memberships(sources, result).axes, result.memberships, sources.names, strict=True
    ):
        (image,) = images(ax)
        assert ax.get_title(loc="left") == name
        assert ax.get_xlabel() == f"{h.shape[1]} samples"
        strongest = image.argmax(axis=0)
        assert (np.diff(strongest) >= 0).all()
        for k in range(4):
            assert (np.diff(image[k, strongest == k]) <= 0).all()
        assert sorted(map(tuple, image.T)) == sorted(map(tuple, tables.shares(h).T)), (
            "every sample once"
        )


@pytest.mark.parametrize("largest", [1.0, 0.88, 0.72, 0.42])
def test_the_legend_of_memberships_counts_in_ones_twos_or_fives(largest):
    sources, result = made_up(3)
    h = np.array([[largest], [1 - largest], [0.0]])
    result = dataclasses.replace(
        result, memberships=[np.repeat(h, n, axis=1) for n in sources.n_samples]
    )
    words = [
        text.get_text() for text in figures.memberships(sources, result).legends[0].get_texts()
    ]
    steps = np.diff([float(word) for word in words])
    assert 3 <= len(words) <= 7 and float(words[0]) == 0
    np.testing.assert_allclose(steps, steps[0])
    assert f"{steps[0]:.1e}"[:3] in ("1.0", "2.0", "5.0"), words


def test_classes_stand_below_their_samples():
    sources, result = made_up(3, n_classes=3)
    heat, classes, *_ = figures.memberships(sources, result).axes[::2]
    # in these data the class of a sample is its strongest component
    np.testing.assert_array_equal(images(heat)[0].argmax(axis=0), images(classes)[0].argmax(axis=0))
    assert labels_of(classes.yaxis) == ["class 1", "class 2", "class 3"]


def test_of_many_samples_some_are_shown_and_that_is_said():
    sources, result = made_up(3, n_samples=(20_000,))
    for figure in (figures.memberships(sources, result), figures.membership_bars(sources, result)):
        assert figure.axes[0].get_xlabel() == "1,500 of 20,000 samples"
    (image,) = images(figures.memberships(sources, result).axes[0])
    assert image.shape == (3, 1500)
    whole = np.bincount(result.memberships[0].argmax(axis=0)) / 20_000
    shown = np.bincount(image.argmax(axis=0)) / 1500
    np.testing.assert_allclose(shown, whole, atol=0.002)


def test_bars_are_stacked_to_one():
    sources, result = made_up(3)
    ax = figures.membership_bars(sources, result).axes[0]
    h = result.memberships[0][:, figures.order_of_samples(result.memberships[0])]
    tops = [patch.get_data().values for patch in ax.patches]
    np.testing.assert_allclose(tops, np.cumsum(h, axis=0))
    np.testing.assert_allclose(tops[-1], 1)
    assert [to_hex(patch.get_facecolor()).upper() for patch in ax.patches] == COLOURS[:3]


def test_beyond_seven_components_the_smallest_share_one_grey_bar():
    sources, result = made_up(10)
    figure = figures.membership_bars(sources, result)
    total = sum(h.sum(axis=1) for h in result.memberships)
    largest = np.sort(np.argsort(-total)[:7])
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [*(f"C{k + 1}" for k in largest), "the other 3"]
    np.testing.assert_allclose(figure.axes[0].patches[-1].get_data().values, 1)


def test_memberships_that_do_not_sum_to_one_are_scaled_and_zeros_stay_zeros():
    np.testing.assert_array_equal(
        tables.shares(np.array([[2.0, 0.0], [6.0, 0.0]])), [[0.25, 0.0], [0.75, 0.0]]
    )


def test_the_bars_of_a_component_are_its_features_farthest_from_the_others(fitted):
    sources, (result, *_) = fitted
    low, high = result.posterior.components.interval(0.9)
    for k, ax in enumerate(figures.components(sources, result, n_features=5).axes):
        distance = np.abs(
            result.components[:, k] - np.delete(result.components, k, axis=1).mean(axis=1)
        )
        top = np.argsort(-distance)[:5]
        assert labels_of(ax.yaxis) == [sources.feature_names[i] for i in top]
        (bars,) = (c for c in ax.containers if isinstance(c, BarContainer))
        np.testing.assert_allclose([bar.get_width() for bar in bars], result.components[top, k])
        (intervals,) = ax.collections
        ends = np.array([segment[:, 0] for segment in intervals.get_segments()])
        np.testing.assert_allclose(ends, np.column_stack([low[top, k], high[top, k]]))
        bottom, upper = ax.get_ylim()
        assert bottom > upper, "the first feature is above"


def test_a_point_estimate_has_no_intervals():
    sources, result = made_up(2)
    assert not figures.components(sources, result).axes[0].collections
    assert not figures.noise(sources, result).axes[0].collections


def test_a_single_component_shows_its_largest_features():
    sources, result = made_up(1)
    (ax,) = figures.components(sources, result, n_features=3).axes
    expected = np.argsort(-np.abs(result.components[:, 0]))[:3]
    assert labels_of(ax.yaxis) == [sources.feature_names[i] for i in expected]


def test_noise_has_dots_intervals_and_numbers(fitted):
    sources, (result, *_) = fitted
    figure = figures.noise(sources, result)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), result.noise)
    low, high = result.posterior.noise.interval(0.9)
    ends = [segment[:, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, np.column_stack([low, high]))
    assert ax.get_xlim()[0] == 0
    (right,) = ax.child_axes
    assert labels_of(right.yaxis)[1] == f"{result.noise[1]:.4g}  ({low[1]:.4g} to {high[1]:.4g})"


def test_convergence_shows_all_restarts_above_the_lowest(fitted):
    _, results = fitted
    course, final = figures.convergence(results).axes
    assert len(course.lines) == 4
    lowest = min(result.trace.min() for result in results)
    for line, result in zip(course.lines, reversed(results), strict=True):
        above = result.trace - lowest
        np.testing.assert_array_equal(line.get_ydata(), np.where(above > 0, above, np.nan))
    assert course.lines[-1].get_color() == COLOURS[0], "the best is on top, in colour"
    assert course.get_yscale() == "log"
    assert course.get_ylabel() == "Minus the ELBO, above the lowest"
    np.testing.assert_allclose(
        final.lines[0].get_ydata(), [r.objective - results[0].objective for r in results]
    )


def test_restarts_that_did_not_converge_stand_out():
    results = [made_up(2, objective=value)[1] for value in (1.0, 2.0, 3.0)]
    results[1].converged = False
    final = figures.convergence(results).axes[1]
    good, bad = final.lines
    assert (list(good.get_xdata()), list(bad.get_xdata())) == ([1, 3], [2])
    assert [text.get_text() for text in final.get_legend().get_texts()] == [
        "converged",
        "not converged",
    ]


@pytest.mark.parametrize("trace", [[], [5.0], [5.0, 5.0, 5.0], [np.inf, 6.0, 5.0]])
@pytest.mark.parametrize("n_restarts", [1, 3])
def test_convergence_of_restarts_that_are_all_the_same(trace, n_restarts):
    results = [made_up(2, trace=np.array(trace))[1]] * n_restarts
    figure = figures.convergence(results)
    figure.draw_without_rendering()
    assert list(figure.axes[1].lines[0].get_ydata()) == [0] * n_restarts


def test_three_components_are_the_corners_of_a_triangle():
    sources, result = made_up(3, n_samples=(4,))
    result.memberships = [np.column_stack([np.eye(3), np.full(3, 1 / 3)])]
    (ax,) = figures.simplex(sources, result).axes
    places = np.asarray(ax.collections[0].get_offsets())
    corners = ax.patches[0].get_xy()[:3]
    np.testing.assert_allclose(places, [*corners, [0, 0]], atol=1e-12)
    for text, corner in zip(ax.texts, corners, strict=True):
        assert (
            np.argmin(np.linalg.norm(corners - text.get_position(), axis=1))
            == int(text.get_text()[1:]) - 1
        )
        assert np.linalg.norm(text.get_position()) > np.linalg.norm(corner), "outside the triangle"


def test_classes_have_colours_between_the_corners():
    sources, result = made_up(4, n_classes=4)
    sources.labels[0][:, 0] = [True, True, False, False]
    sources.labels[0][:, 1] = False
    figure = figures.simplex(sources, result)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["class 1", "class 2", "class 3", "class 4", "several classes", "no class"]
    assert sum(len(points.get_offsets()) for points in figure.axes[0].collections) == 40


def test_two_components_are_the_ends_of_a_line():
    sources, result = made_up(2)
    ax = figures.simplex(sources, result).axes[0]
    expected, _ = np.histogram(result.memberships[0][1], np.linspace(0, 1, 26))
    np.testing.assert_array_equal([bar.get_height() for bar in ax.patches], expected)


def test_a_single_component_has_no_simplex():
    with pytest.raises(ValueError, match="one component"):
        figures.simplex(*made_up(1))


def test_stability_finds_shuffled_components_again_and_others_not():
    _, best = made_up(4)
    shuffled = made_up(4)[1]
    other = made_up(4, seed=9)[1]
    shuffled.memberships = [h[[3, 1, 0, 2]] for h in shuffled.memberships]
    mean, each, *_ = figures.stability([best, shuffled, other]).axes
    (image,) = images(each)
    np.testing.assert_allclose(image[0], 1)
    assert (image[1] < 0.6).all()
    np.testing.assert_allclose(mean.lines[0].get_ydata(), image.mean(axis=0))
    assert labels_of(each.yaxis) == ["seed 0", "seed 9"]


def test_short_names_stay_apart_where_they_can():
    assert figures.short(["short", "a name that is too long"], 10) == ["short", "a name th…"]
    assert figures.short(["patient 1 left", "patient 2 left"], 11) == ["patient 1 …", "patient 2 …"]
    assert figures.short(["the same start 1", "the same start 2"], 8) == ["the…rt 1", "the…rt 2"]
    assert figures.short(["cost in $ and $"], 20) == [r"cost in \$ and \$"]
    assert figures.short(["two\nlines"], 20) == ["two lines"]


def everything(sources, result):
    yield figures.memberships(sources, result)
    yield figures.membership_bars(sources, result)
    yield figures.components(sources, result, n_features=3)
    yield figures.noise(sources, result)
    yield figures.convergence([result, result])
    yield figures.stability([result] * 30)
    if result.n_components > 1:
        yield figures.simplex(sources, result)


def drawn_labels(axis):
    """The labels of those ticks that are within the axes."""
    labels = [tick.label1 for tick in axis._update_ticks()]
    return [label for label in labels if label.get_visible() and label.get_text()]


@pytest.mark.parametrize(("n_components", "n_samples"), [(1, (20,)), (40, (60,) * 4), (3, (20, 1))])
def test_nothing_is_clipped_and_no_labels_overlap(n_components, n_samples):
    for figure in everything(
        *made_up(n_components, n_samples, n_features=50, n_classes=9, length=8)
    ):
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        titles = [ax._left_title for ax in figure.axes if ax._left_title.get_text()]
        texts = [*titles, *(text for ax in figure.axes for text in ax.texts)]
        for ax in figure.axes:
            if ax.axison:
                rows = drawn_labels(ax.yaxis)
                columns = drawn_labels(ax.xaxis)
                texts += [
                    *rows,
                    *columns,
                    *(label for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()),
                ]
                for labels in (rows, columns):
                    assert not overlapping(labels), labels
        assert not overlapping(titles)
        for text in texts:
            box = text.get_window_extent()
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, (
                text
            )


def overlapping(texts):
    boxes = [text.get_window_extent().padded(-1) for text in texts]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_pictures_of_many_samples_are_small_files():
    sources, result = made_up(5, n_samples=(20_000,), n_classes=5)
    for draw in (figures.memberships, figures.membership_bars, figures.simplex):
        file = io.BytesIO()
        draw(sources, result).savefig(file, format="svg", dpi=200)
        assert file.tell() < 1_000_000


def test_the_variance_explained_by_source_and_component_beside_the_totals():
    sources, _ = made_up(4, n_samples=(5, 5, 5))
    shares = np.random.default_rng(0).dirichlet(np.ones(5), 3)[:, :4]
    each, bars = figures.variance_explained(tables.variance_explained(sources, shares)).axes
    np.testing.assert_allclose(images(each)[0], 100 * shares)
    assert labels_of(each.yaxis) == sources.names and labels_of(each.xaxis) == [
        "C1",
        "C2",
        "C3",
        "C4",
    ]
    assert [text.get_text() for text in each.texts] == [
        f"{100 * share:.1f}" for share in shares.ravel()
    ]
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], 100 * shares.sum(axis=1))


def test_the_share_and_the_spread_of_the_consensus_components():
    table = pd.DataFrame({"component": ["C1", "C2"], "share": [1.0, 0.4], "spread": [0.01, 0.3]})
    for ax, name in zip(figures.consensus(table).axes, ("share", "spread"), strict=True):
        assert [bar.get_height() for bar in ax.patches] == list(table[name])
    assert labels_of(ax.xaxis) == ["C1", "C2"]


def test_associations_are_a_heat_map_with_dots_where_they_are_significant():
    rows = [
        ("C10", "age", 0.5, 0.01),
        ("C2", "age", 0.1, 0.5),
        ("C10", "sex", 0.2, 0.3),
        ("C2", "sex", 0.4, 0.04),
    ]
    table = pd.DataFrame(rows, columns=["component", "column", "strength", "q_value"])
    ax = figures.associations(table).axes[0]
    np.testing.assert_array_equal(images(ax)[0], [[0.1, 0.5], [0.4, 0.2]])
    assert labels_of(ax.yaxis) == ["age", "sex"] and labels_of(ax.xaxis) == ["C2", "C10"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == [(1, 0), (0, 1)]
