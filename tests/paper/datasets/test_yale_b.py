import numpy as np
import pytest

from bjmd.errors import InputError
from bjmd_paper.datasets.real import yale_b


def write_pgm(path, pixels, header=b"P5\n%d %d\n255\n"):
    height, width = pixels.shape
    path.write_bytes(header % (width, height) + pixels.astype(np.uint8).tobytes())


@pytest.mark.parametrize(
    "header",
    [
        b"P5\n%d %d\n255\n",
        b"P5 %d %d 255 ",
        b"P5\n# made by a camera\n%d %d\n255\n",
        b"P5 # one\r\n# two 12 13\n %d\t# three\n%d # four\n#\n255\n",
    ],
)
def test_pgm_headers(tmp_path, rng, header):
    # The first pixels are a line end and a comment sign, and are pixels all the same.
    pixels = rng.integers(0, 256, (5, 3))
    pixels[0] = [10, 35, 32]
    write_pgm(tmp_path / "a.pgm", pixels, header)
    np.testing.assert_array_equal(yale_b.read_pgm(tmp_path / "a.pgm"), pixels)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no complete PGM header"),
        (b"P5\n3 2", "no complete PGM header"),
        (b"P5\n3 2\n255\n12345", "ends before its 3 x 2 pixels"),
        (b"P2\n3 2\n255\n1 2 3 4 5 6", "not a binary PGM"),
        (b"P5\n3 x\n255\n123456", "not a binary PGM"),
        (b"P5\n3 2\n65535\n123456123456", "8-bit"),
    ],
)
def test_pgm_that_cannot_be_read(tmp_path, content, words):
    (tmp_path / "a.pgm").write_bytes(content)
    with pytest.raises(InputError, match=words):
        yale_b.read_pgm(tmp_path / "a.pgm")


@pytest.fixture
def folder(tmp_path, rng):
    """Two people with images on and around every limit of the selection."""
    for person in ("yaleB01", "yaleB39"):
        (tmp_path / person).mkdir()
        for light in (
            "A+000E+00",
            "A-015E+45",
            "A-020E-40",
            "A+050E+00",
            "A+060E+20",
            "A+000E+65",
            "A+010E+90",
        ):
            write_pgm(
                tmp_path / person / f"{person}_P00{light}.pgm", rng.integers(1, 256, (192, 168))
            )
        write_pgm(tmp_path / person / f"{person}_P00_Ambient.pgm", np.ones((480, 640)))
        (tmp_path / person / f"{person}_P00A+005E+10.pgm.bad").write_bytes(b"")
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
    pixels = yale_b.read_pgm(folder / "yaleB01/yaleB01_P00A-015E+45.pgm").astype(float)
    ratio = sources.matrices[0][:, 1] / sources.matrices[0][0, 1]
    expected = pixels[8:12, 160:164].mean() / pixels[:4, :4].mean()
    np.testing.assert_allclose(ratio[sources.feature_names.index("row 3, column 41")], expected)


def test_images_that_do_not_fit(folder):
    write_pgm(folder / "yaleB01_P00A+005E+10.pgm", np.ones((24, 24)))
    with pytest.raises(InputError, match="24 x 24 pixels; a cropped image has 168 x 192"):
        yale_b.read(folder)
    with pytest.raises(InputError, match="no image with center lighting"):
        yale_b.read(folder / "nowhere")
