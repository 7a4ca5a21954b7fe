"""Pictures of findings: one for each, of clean and of broken data, and with names that matplotlib
could misread.
"""

import io

import numpy as np
import pytest

from bjmd.analysis.check import ANSWERS, check
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.report.check_figures import DRAWN, figure


@pytest.mark.parametrize("broken", [False, True])
def test_every_finding_has_a_picture(broken, make_sources):
    sources = make_sources(n_features=30, n_samples=(40, 35, 30, 20), noise=(0.3, 0.5, 0.8, 1.0))
    if broken:
        wild = [
            np.where(np.random.default_rng(c).random(x.shape) < 0.01, 50.0, x)
            for c, x in enumerate(sources.matrices)
        ]
        sources = Sources(wild, names=["$a", "b" * 60, "c", "d"])
    findings = check(sources, registry.fit("cavi-bjmd", sources, 3))
    assert [finding.name for finding in findings] == list(ANSWERS) == list(DRAWN)
    for finding in findings:
        picture = figure(finding)
        picture.savefig(io.BytesIO(), format="png", dpi=40)
        assert all(ax.get_xlabel() for ax in picture.axes)


def test_the_picture_shows_the_numbers_of_the_finding(make_sources):
    sources = make_sources(n_features=30, n_samples=(40, 35))
    finding = next(
        f
        for f in check(sources, registry.fit("cavi-bjmd", sources, 3))
        if f.name == "source-specific component"
    )
    bars = figure(finding).axes[0].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], np.ravel(finding.data["gain"]))
