import numpy as np
import pytest

from bjmd_paper.datasets import synthetic


@pytest.mark.parametrize(
    ("scale", "shape", "n_components", "a"),
    [("small", (105, 120), 5, 2.0), ("large", (1000, 1000), 10, 1.5)],
)
def test_shapes_and_components_are_the_papers(scale, shape, n_components, a):
    drawn = synthetic.generate(scale, 4.0, 0)
    assert [x.shape for x in drawn.sources.matrices] == [shape] * 3
    size = synthetic.SCALES[scale]
    expected = np.zeros((shape[0], n_components))
    for k in range(1, n_components):  # the paper's formula, counted from 1
        for i in range(
            1 + (k - 1) * (size.L - size.coh), size.L + (k - 1) * (size.L - size.coh) + 1
        ):
            expected[i - 1, k - 1] = a
    np.testing.assert_array_equal(drawn.components, expected)
    assert not drawn.components[:, -1].any()
    assert drawn.components[-1, -2] == a, "the last block ends at the last feature"


def test_memberships_are_normalised_indicators():
    drawn = synthetic.generate("large", 1.5, 1)
    for h, labels in zip(drawn.memberships, drawn.sources.labels, strict=True):
        np.testing.assert_allclose(h.sum(axis=0), 1)
        np.testing.assert_array_equal(labels, h > 0)
        np.testing.assert_array_equal(labels[-1], ~labels[:-1].any(axis=0))
        counts = labels.sum(axis=0)
        np.testing.assert_allclose(h.max(axis=0), 1 / counts)
        assert abs(labels[:-1].mean() - 0.1) < 0.02


def test_noise_has_the_stated_size():
    drawn = synthetic.generate("large", 4.0, 2)
    for x, h, sigma in zip(drawn.sources.matrices, drawn.memberships, (1.0, 2.5, 4.0), strict=True):
        assert abs((x - drawn.components @ h).std() / sigma - 1) < 0.01


def test_a_sweep_changes_only_source_3():
    low = synthetic.generate("small", 1.5, 3)
    high = synthetic.generate("small", 5.5, 3)
    for c in (0, 1):
        np.testing.assert_array_equal(low.sources.matrices[c], high.sources.matrices[c])
    np.testing.assert_array_equal(low.memberships[2], high.memberships[2])
    assert (low.sources.matrices[2] != high.sources.matrices[2]).all()


def test_extra_features_are_noise_alone_and_change_no_other():
    plain = synthetic.generate("small", 4.0, 3)
    more = synthetic.generate("small", 4.0, 3, extra_features=2000)
    assert more.components.shape == (2105, 5) and not more.components[105:].any()
    for x, longer, sigma in zip(
        plain.sources.matrices, more.sources.matrices, plain.noise, strict=True
    ):
        np.testing.assert_array_equal(longer[:105], x)
        assert abs(longer[105:].std() / sigma - 1) < 0.01
        assert abs(longer[105:].mean()) < 0.01 * sigma
    extra = np.corrcoef([x[105:].ravel() for x in more.sources.matrices])
    assert abs(extra[np.triu_indices(3, 1)]).max() < 0.01, "sources have noise of their own"


def test_another_height_changes_the_patterns_alone():
    printed, lower = (synthetic.generate("small", 4.0, 3, height=height) for height in (None, 1.6))
    np.testing.assert_array_equal(lower.components, 0.8 * printed.components)
    for c in range(3):
        np.testing.assert_array_equal(lower.memberships[c], printed.memberships[c])
        noise = [
            one.sources.matrices[c] - one.components @ one.memberships[c]
            for one in (printed, lower)
        ]
        np.testing.assert_allclose(*noise, atol=1e-12)


def test_the_seed_decides():
    first, again, other = (
        synthetic.generate("small", 4.0, seed).sources.matrices[0] for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
