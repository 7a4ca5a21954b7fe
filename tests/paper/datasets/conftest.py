"""What the tests of the data sets share: the real data, where there are any, and a small made-up
data set.
"""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from bjmd_paper.datasets.catalogue import Dataset, Member


@pytest.fixture(scope="session")
def data():
    """The mirror with the real data; tests that need it are skipped where there is none."""
    if "BJMD_DATA" not in os.environ:
        pytest.skip("real data: set BJMD_DATA to a folder that holds them")
    return Path(os.environ["BJMD_DATA"]).resolve()


@pytest.fixture
def content():
    """The files of a made-up data set."""
    return {"small.txt": b"one two three\n" * 20, "large.txt": bytes(range(256)) * 2000}


@pytest.fixture
def made_up(content):
    """A function that describes that data set, to be downloaded from the given addresses."""

    def describe(*addresses, **changes):
        members = tuple(
            Member((name,), len(text), (hashlib.sha256(text).hexdigest(),))
            for name, text in content.items()
        )
        fields = dict(
            name="made-up",
            title="Made-up data",
            version="1",
            page="http://example.org/made-up",
            terms="none",
            citation="none",
            n_classes=2,
            folder="made-up",
            archive="made-up.zip",
            addresses=addresses,
            module="bjmd_paper.datasets.real.made_up",
            members=members,
        )
        return Dataset(**fields | changes)

    return describe


@pytest.fixture
def zipped():
    """A function that packs files and returns the bytes of the .zip."""

    def pack(content, prefix="top/"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in content.items():
                archive.writestr(prefix + name, data)
        return buffer.getvalue()

    return pack
