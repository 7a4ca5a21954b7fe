"""Extended Yale B: faces of 38 people, lit from the center in one source and from the side in the
other.

A file name gives the direction of the light: `yaleB07_P00A-025E+00.pgm` is person 7, azimuth -25,
elevation 0.  Only the reading below gives the paper's 567 and 677 images; images marked `.bad` and
ambient light are not among them (docs/data.md).
"""

import re
from pathlib import Path

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd_paper.datasets.catalogue import described_beside

WIDTH = 42
HEIGHT = 48
"""The size of a prepared image; one feature a pixel, row by row."""
SHRINK = 4
"""How many pixels of the original, in each direction, one of ours is the mean of."""

_FILE = re.compile(r"(yaleB\d\d)_P00A([+-]\d{3})E([+-]\d\d)\.pgm")


def read(folder):
    """The sources "center" and "side" from a folder of .pgm files, in any depth; classes are the
    people.
    """
    chosen: dict[str, list[Path]] = {"center": [], "side": []}
    for path in sorted(Path(folder).rglob("yaleB*.pgm"), key=lambda path: path.name):
        lighting = _lighting(path.name)
        if lighting is not None:
            chosen[lighting].append(path)
    for lighting, paths in chosen.items():
        if not paths:
            raise InputError(
                f"{folder} holds no image with {lighting} lighting; unpack CroppedYale.zip there, or let the workflow "
                "fetch it"
            )
    people = sorted({_person(path) for paths in chosen.values() for path in paths})
    matrices = [np.stack([_shrunk(path) for path in paths], axis=1) for paths in chosen.values()]
    return Sources(
        # Each source has its own brightness; divided by their means, both are 1 on average.
        [x / x.mean() for x in matrices],
        names=chosen,
        feature_names=[
            f"row {row + 1}, column {column + 1}"
            for row in range(HEIGHT)
            for column in range(WIDTH)
        ],
        sample_names=[[path.stem for path in paths] for paths in chosen.values()],
        labels=[
            np.array([[_person(path) == one for path in paths] for one in people])
            for paths in chosen.values()
        ],
        class_names=people,
    )


def read_pgm(path):
    """The pixels of a binary 8-bit PGM file, height x width; `#` comments may stand anywhere in its
    header.
    """
    content = Path(path).read_bytes()
    fields: list[bytes] = []
    position = 0
    while len(fields) < 4:
        found = _HEADER_FIELD.match(content, position)
        if not found:
            raise InputError(f"{path} has no complete PGM header; fetch it again")
        fields.append(found[1])
        position = found.end()
    magic, *numbers = fields
    if magic != b"P5" or not all(number.isdigit() for number in numbers):
        raise InputError(f"{path} is not a binary PGM file (P5); fetch it again")
    width, height, white = map(int, numbers)
    if not 0 < white < 256:
        raise InputError(
            f"{path} has grey values up to {white}; only 8-bit images (up to 255) can be read"
        )
    first = (
        position + 1
    )  # exactly one white space ends the header; the next byte is a pixel, whatever it looks like
    if len(content) < first + width * height:
        raise InputError(f"{path} ends before its {width} x {height} pixels do; fetch it again")
    return np.frombuffer(content, np.uint8, width * height, first).reshape(height, width)


_HEADER_FIELD = re.compile(rb"(?:\s|#[^\r\n]*[\r\n])*([^\s#]+)(?=\s)")


def _lighting(file_name):
    """The source that an image belongs to, or None."""
    found = _FILE.fullmatch(file_name)
    if not found:
        return None
    azimuth = abs(int(found[2]))
    elevation = abs(int(found[3]))
    if azimuth >= 60 or elevation >= 60:
        return None
    return "center" if azimuth < 20 else "side"


def _person(path):
    return path.name[: len("yaleB00")]


def _shrunk(path):
    """One image as a column of block means."""
    pixels = read_pgm(path)
    if pixels.shape != (HEIGHT * SHRINK, WIDTH * SHRINK):
        raise InputError(
            f"{path} is {pixels.shape[1]} x {pixels.shape[0]} pixels; a cropped image has {WIDTH * SHRINK} x "
            f"{HEIGHT * SHRINK}, so take the images of CroppedYale.zip"
        )
    return pixels.reshape(HEIGHT, SHRINK, WIDTH, SHRINK).mean(axis=(1, 3)).ravel()


def draw_faces(sources, title, n_people=9, n_lights=3):
    """The same people under a few lights of each source, on one grey scale, so that the shadows can
    be compared.
    """

    from matplotlib.figure import Figure

    people = [
        sources.class_names[i]
        for i in np.linspace(0, len(sources.class_names) - 1, n_people).astype(int)
    ]
    brightest = max(np.percentile(x, 99.5) for x in sources.matrices)
    figure = Figure(
        figsize=(n_people + 1.6, 1.16 * n_lights * len(sources) + 0.9), layout="constrained"
    )
    figure.suptitle(f"{title}: one column a person")
    axes = figure.subplots(n_lights * len(sources), n_people)
    for c, (name, x) in enumerate(zip(sources.names, sources.matrices, strict=True)):
        column = {sample: j for j, sample in enumerate(sources.sample_names[c])}
        shared = set.intersection(
            *({s.removeprefix(one) for s in column if s.startswith(one)} for one in people)
        )
        lights = sorted(
            shared, key=lambda light: (int(light[5:9]), light)
        )  # _P00A-025E+00: by azimuth
        chosen = [lights[i] for i in np.linspace(0, len(lights) - 1, n_lights).astype(int)]
        for row, light in zip(axes[c * n_lights : (c + 1) * n_lights], chosen, strict=True):
            for axis, one in zip(row, people, strict=True):
                image = x[:, column[one + light]].reshape(HEIGHT, WIDTH)
                shades = axis.imshow(image, cmap="gray", vmin=0, vmax=brightest)
                axis.set(xticks=[], yticks=[])
            row[0].set_ylabel(
                f"{name}\nazimuth {int(light[5:9])}°\nelevation {int(light[10:13])}°", fontsize=8
            )
    figure.colorbar(shades, ax=axes, shrink=0.5, aspect=30, label="multiples of the group's mean")
    return figure


DATASET = described_beside(__file__, sources=read, draw=draw_faces)
