import numpy as np
import pytest

from bjmd_paper.datasets.real import yale_b


def write_pgm(path, pixels):
    height, width = pixels.shape
    path.write_bytes(b"P5\n%d %d\n255\n" % (width, height) + pixels.astype(np.uint8).tobytes())


@pytest.fixture
def folder(tmp_path, rng):
    """Two people with images on and around every limit of the selection."""
    for person in ("yaleB01", "yaleB39"):
        for light in (
            "A+000E+00",
            "A-015E+45",
            "A-020E-40",
            "A+050E+00",
            "A+060E+20",
            "A+000E+65",
            "A+010E+90",
        ):
            write_pgm(tmp_path / f"{person}_P00{light}.pgm", rng.integers(1, 256, (192, 168)))
        write_pgm(tmp_path / f"{person}_P00_Ambient.pgm", np.ones((480, 640)))
        (tmp_path / f"{person}_P00A+005E+10.pgm.bad").write_bytes(b"")
    return tmp_path


def test_selection_shrinking_and_scaling(folder):
    sources = yale_b.read(folder)
    assert sources.names == ["center", "side"]
    assert sources.sample_names[0] == [
        "yaleB01_P00A+000E+00",
        "yaleB01_P00A-015E+45",
        "yaleB39_P00A+000E+00",
        "yaleB39_P00A-015E+45",
    ]
    assert [name[11:] for name in sources.sample_names[1]] == ["A+050E+00", "A-020E-40"] * 2
    assert sources.class_names == ["yaleB01", "yaleB39"]
    np.testing.assert_array_equal(sources.labels[0], [[1, 1, 0, 0], [0, 0, 1, 1]])
    assert sources.n_features == 2016
    np.testing.assert_allclose([x.mean() for x in sources.matrices], 1)
    # one pixel of ours by hand: row 3, column 41 of the second image
    content = (folder / "yaleB01_P00A-015E+45.pgm").read_bytes()
    pixels = np.frombuffer(content[-192 * 168 :], np.uint8).reshape(192, 168).astype(float)
    ratio = sources.matrices[0][:, 1] / sources.matrices[0][0, 1]
    expected = pixels[8:12, 160:164].mean() / pixels[:4, :4].mean()
    np.testing.assert_allclose(ratio[sources.feature_names.index("row 3, column 41")], expected)
