import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer

from bjmd.analysis import ranking
from bjmd.analysis.associations import by_source
from bjmd.data.sources import Sources
from bjmd.inference import restarts
from bjmd.report import figures, tables
from bjmd.report.figures import COLOURS
from bjmd.results.decomposition import Decomposition


def made_up(
    n_components, n_samples=(40, 30), n_features=15, seed=0, n_classes=0, length=1, **fields
):
    """Names and labels, and a result with random numbers in it, in no time at all."""
    rng = np.random.default_rng(seed)
    memberships = [rng.dirichlet(np.full(n_components, 0.3), n).T for n in n_samples]
    labels = class_names = None
    if n_classes:
        labels = [np.eye(n_classes)[:, h.argmax(axis=0) % n_classes] for h in memberships]
        class_names = [f"{'class ' * length}{k + 1}" for k in range(n_classes)]
    sources = Sources(
        [np.ones((n_features, n)) for n in n_samples],
        names=[f"{'cohort ' * length}{c + 1}" for c in range(len(n_samples))],
        feature_names=[f"{'gene ' * length}{i + 1}" for i in range(n_features)],
        labels=labels,
        class_names=class_names,
    )
    given = {
        "noise": 1 + rng.random(len(n_samples)),
        "objective": 5.0,
        "trace": np.array([9.0, 6.0, 5.0]),
        **fields,
    }
    components = rng.laplace(size=(n_features, n_components))
    ending = {"converged": True, "reason": "", "method": "map-bjmd", "seed": seed}
    return sources, Decomposition(components, memberships, **ending, **given)


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


def words_of(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_samples_are_sorted_by_what_contributes_most_to_them():
    """A component close to the mean of the data says little, however large its memberships."""
    sources, result = made_up(3, n_samples=(40,))
    w = result.components
    w[:, 0] = 0.9 * w @ result.memberships[0].mean(axis=1) + 0.1 * w[:, 0]
    ax = figures.memberships(sources, result).axes[0]
    (image,) = images(ax)
    assert ax.get_title(loc="left") == "cohort 1" and ax.get_xlabel() == "40 samples"
    contributions = ranking.distances(result)[:, None] * image
    most = contributions.argmax(axis=0)
    assert (np.diff(most) >= 0).all() and (most != image.argmax(axis=0)).any()
    pure = contributions.max(axis=0) / contributions.sum(axis=0)
    for k in range(3):
        assert (np.diff(pure[most == k]) <= 1e-12).all()
    assert sorted(map(tuple, image.T)) == sorted(map(tuple, tables.shares(result.memberships[0]).T))


def test_classes_stand_below_their_samples():
    sources, result = made_up(3, n_classes=3)
    heat, classes = figures.memberships(sources, result).axes[:4:2]
    # in these data the class of a sample is its strongest component
    np.testing.assert_array_equal(images(heat)[0].argmax(axis=0), images(classes)[0].argmax(axis=0))
    assert labels_of(classes.yaxis) == ["class 1", "class 2", "class 3"]


def test_memberships_that_do_not_sum_to_one_are_scaled_and_zeros_stay_zeros():
    np.testing.assert_array_equal(
        tables.shares(np.array([[2.0, 0.0], [6.0, 0.0]])), [[0.25, 0.0], [0.75, 0.0]]
    )


def test_a_component_has_its_features_up_and_down_from_the_mean_of_the_data(fitted):
    sources, (result, *_) = fitted
    means = result.components @ np.hstack(result.memberships).mean(axis=1)
    mean = pd.Series(means, sources.feature_names)
    table = tables.ranking(sources, result)
    for k, ax in enumerate(figures.components(sources, result, n_features=3).axes):
        top = table[(table["component"] == f"C{k + 1}") & (table["rank"] <= 3)]
        names = labels_of(ax.yaxis)
        assert names == list(top["feature"])
        bars = [bar.get_width() for c in ax.containers if isinstance(c, BarContainer) for bar in c]
        np.testing.assert_allclose(bars, top["value"] - mean[names].to_numpy())
        (intervals,) = ax.collections
        ends = np.array([segment[:, 0] for segment in intervals.get_segments()])
        np.testing.assert_allclose(ends, top[["low", "high"]] - mean[names].to_numpy()[:, None])
        others = top["mean_of_others"] - mean[names].to_numpy()
        np.testing.assert_allclose(ax.lines[-1].get_xdata(), others)


def test_a_point_estimate_has_no_intervals():
    sources, result = made_up(2)
    assert not figures.components(sources, result).axes[0].collections


def test_offsets_are_ranked_by_source():
    sources, _ = made_up(2)
    means = np.array([np.linspace(-7, 7, 15), np.zeros(15)])
    sds = np.array([np.where(np.arange(15) == 14, 100.0, 1.0), np.ones(15)])
    table = tables.offsets(sources, means, sds)
    assert list(table["feature"][:2]) == ["gene 1", "gene 2"], "the last one is uncertain"
    assert set(table["source"][-15:]) == {sources.names[1]}, "it is not shifted"
    words = tables.offsets_as_text(table, n_features=2)["Features"]
    assert list(words[:2]) == [
        "gene 14 (+6 ± 1), gene 13 (+5 ± 1)",
        "gene 1 (-7 ± 1), gene 2 (-6 ± 1)",
    ]


def test_the_shares_of_components_by_source_with_intervals():
    sources, result = made_up(3)
    table = by_source(result, sources.names)
    (ax,) = figures.components_by_source(table).axes
    for c, line in enumerate(ax.lines):
        shares = 100 * result.memberships[c].mean(axis=1)
        np.testing.assert_allclose(line.get_xdata().astype(float), shares)
        ends = [segment[:, 0] for segment in ax.collections[c].get_segments()]
        np.testing.assert_allclose(np.max(ends, axis=1), 100 * table["high"][c::2])
    assert labels_of(ax.yaxis) == ["C1", "C2", "C3"]
    assert words_of(ax.figure.legends[0]) == sources.names


def test_three_components_are_the_corners_of_a_triangle():
    sources, result = made_up(3, n_samples=(4,))
    result.memberships = [np.column_stack([np.eye(3), np.full(3, 1 / 3)])]
    (ax,) = figures.simplex(sources, result).axes
    corners = ax.patches[0].get_xy()[:3]
    places = np.asarray(ax.collections[0].get_offsets())
    expected = np.array([*corners, [0, 0]])
    np.testing.assert_allclose(
        places[np.lexsort(places.T)], expected[np.lexsort(expected.T)], atol=1e-12
    )
    for text, corner in zip(ax.texts, corners, strict=True):
        nearest = np.argmin(np.linalg.norm(corners - text.get_position(), axis=1))
        assert f"C{nearest + 1}" == text.get_text()
        assert np.linalg.norm(text.get_position()) > np.linalg.norm(corner), "outside the triangle"


def test_many_classes_have_colours_and_none_hides_another():
    sources, result = made_up(12, n_samples=(400,), n_classes=12)
    sources.labels[0][:, 0] = np.arange(12) < 2
    sources.labels[0][:, 1] = False
    figure = figures.simplex(sources, result)
    words = words_of(figure.legends[0])
    assert words == [*(f"class {k + 1}" for k in range(12)), "several classes", "no class"]
    (points,) = figure.axes[0].collections
    colours = [to_hex(colour).upper() for colour in points.get_facecolors()]
    assert len(points.get_offsets()) == 400 and len(set(colours)) == 14
    places = [colours.index(colour) for colour in COLOURS[:12]]
    assert max(places) < 150, "all classes are among the first to be drawn"


def test_a_long_legend_has_room():
    figure = figures.simplex(*made_up(3, n_samples=(200, 200), n_classes=40))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= 0 and box.y1 < figure.axes[0].get_window_extent().y0


def test_classes_are_listed_in_one_order_even_if_the_first_source_lacks_some():
    sources, result = made_up(3, n_samples=(4, 30), n_classes=3)
    sources.labels[0][:] = [[False], [False], [True]]
    words = words_of(figures.simplex(sources, result).legends[0])
    assert words == ["class 1", "class 2", "class 3"]


@pytest.mark.parametrize(("n_components", "drawn"), [(12, True), (13, False)])
def test_a_report_leaves_out_figures_in_which_many_components_cannot_be_told_apart(
    n_components, drawn
):
    sources, result = made_up(n_components, n_samples=(10,))
    names = figures.of_fit(sources, result, {})
    assert {"memberships", "components"} <= set(names)
    assert ("simplex" in names) == drawn


def test_short_names_keep_both_ends():
    assert figures.short(["short", "the same start 1"], 8) == ["short", "the …t 1"]
    assert figures.short(["cost in $", "two\nlines"], 20) == [r"cost in \$", "two lines"]


def everything(sources, result):
    yield figures.memberships(sources, result)
    yield figures.components(sources, result, n_features=3)
    if len(sources) > 1:
        yield figures.components_by_source(by_source(result, sources.names))
    if result.n_components > 2:
        yield figures.simplex(sources, result)


def drawn_labels(axis):
    """The labels of those ticks that are within the axes."""
    labels = [tick.label1 for tick in axis._update_ticks()]
    return [label for label in labels if label.get_visible() and label.get_text()]


@pytest.mark.parametrize(("n_components", "n_samples"), [(1, (20,)), (40, (60,) * 4), (3, (20, 1))])
def test_nothing_is_clipped_and_no_labels_overlap(n_components, n_samples):
    for figure in everything(
        *made_up(n_components, n_samples, n_features=50, n_classes=10, length=8)
    ):
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        titles = [ax._left_title for ax in figure.axes if ax._left_title.get_text()]
        texts = [*titles, *(text for ax in figure.axes for text in ax.texts)]
        texts += [text for legend in figure.legends for text in legend.get_texts()]
        for ax in figure.axes:
            if ax.axison:
                rows = drawn_labels(ax.yaxis)
                columns = drawn_labels(ax.xaxis)
                named = [label for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()]
                texts += [*rows, *columns, *named]
                for labels in (rows, columns):
                    assert not overlapping(labels), labels
        assert not overlapping(titles)
        for text in texts:
            box = text.get_window_extent()
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            assert inside, text


def overlapping(texts):
    boxes = [text.get_window_extent().padded(-1) for text in texts]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_pictures_of_many_samples_are_small_files():
    sources, result = made_up(5, n_samples=(20_000,), n_classes=5)
    for draw in (figures.memberships, figures.simplex):
        file = io.BytesIO()
        draw(sources, result).savefig(file, format="svg", dpi=200)
        assert file.tell() < 1_000_000


def test_the_variance_explained_by_source_and_component_beside_the_totals():
    sources, _ = made_up(4, n_samples=(5, 5, 5))
    shares = np.random.default_rng(0).dirichlet(np.ones(5), 3)[:, :4]
    each, bars, _ = figures.variance_explained(tables.variance_explained(sources, shares)).axes
    np.testing.assert_allclose(images(each)[0], 100 * shares)
    assert labels_of(each.yaxis) == sources.names
    assert labels_of(each.xaxis) == ["C1", "C2", "C3", "C4"]
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], 100 * shares.sum(axis=1))


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
