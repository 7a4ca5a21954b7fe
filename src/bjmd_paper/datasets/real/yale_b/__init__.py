"""Extended Yale B: faces of 38 people, lit from the center in one source, from the side in another.

A file name gives the direction of the light: `yaleB07_P00A-025E+00.pgm` is person 7, azimuth -25,
elevation 0.  Only the selection below gives the paper's 567 and 677 images; images marked `.bad`
and ambient light are not among them (docs/data.md).
"""

import re
from pathlib import Path

import numpy as np

from bjmd.data.sources import Sources

WIDTH = 42
HEIGHT = 48
"""The size of a prepared image; one feature a pixel, row by row."""
SHRINK = 4
"""Each prepared pixel is the mean of SHRINK x SHRINK original ones."""

_FILE = re.compile(r"(yaleB\d\d)_P00A([+-]\d{3})E([+-]\d\d)\.pgm")


def read(folder):
    """The sources "center" and "side" from a folder of .pgm files; classes are the people."""
    images: dict[str, list[Path]] = {"center": [], "side": []}
    for path in sorted(Path(folder).glob("yaleB*.pgm")):
        lighting = _lighting(path.name)
        if lighting is not None:
            images[lighting].append(path)
    people = sorted({_person(path) for paths in images.values() for path in paths})
    matrices = [np.stack([_shrunk(path) for path in paths], axis=1) for paths in images.values()]
    return Sources(
        # Each source has its own brightness; divided by their means, both are 1 on average.
        [x / x.mean() for x in matrices],
        names=images,
        feature_names=[
            f"row {row + 1}, column {column + 1}"
            for row in range(HEIGHT)
            for column in range(WIDTH)
        ],
        sample_names=[[path.stem for path in paths] for paths in images.values()],
        labels=[
            np.array([[_person(path) == person for path in paths] for person in people])
            for paths in images.values()
        ],
        class_names=people,
    )


def _lighting(file_name):
    """The source that an image belongs to, or None."""
    match = _FILE.fullmatch(file_name)
    if match is None:
        return None
    azimuth = abs(int(match[2]))
    elevation = abs(int(match[3]))
    if azimuth >= 60 or elevation >= 60:
        return None
    return "center" if azimuth < 20 else "side"


def _person(path):
    return path.name[: len("yaleB00")]


def _shrunk(path):
    """One image as a column of block means."""
    from matplotlib.image import imread

    blocks = imread(path).reshape(HEIGHT, SHRINK, WIDTH, SHRINK)
    return blocks.mean(axis=(1, 3)).ravel()
