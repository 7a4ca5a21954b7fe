"""Find the files of a data set in a mirror, in the cache or on the network, and verify them.

A mirror and the cache have the same layout: <root>/<folder of the data set>/<the archive, or its
files>.  So a cache that was filled on one machine is a mirror for a machine without network.

An archive is unpacked into the cache, and only listed files of known content stay there.  Providers
pack archives anew, so it is the files in them that have a known hash.
"""

import gzip
import hashlib
import logging
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue

log = logging.getLogger(__name__)

TIMEOUT = 30
"""Seconds to wait for a connection, and for the next bytes."""
RETRIES = 2
"""How often a failed download is tried again."""
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)
"""What libraries raise while they read a damaged archive."""


def files(name, *, mirror=None, cache=None, unverified=False):
    """The folder with the files of a data set, and a table of them.

    The mirror (default: the environment variable BJMD_DATA) is searched first, then the cache
    (default: the user's cache directory), then the addresses of the catalogue.  With `unverified`,
    other versions of the files are taken as well; the table has a row for each file and says
    whether it is known.
    """
    dataset = catalogue.get(name)
    roots = _roots(mirror, cache)
    place = _find(dataset, roots)
    if place is None:
        return _download(dataset, roots, unverified)
    return _unpacked(place, dataset, roots[-1] / dataset.folder, unverified)


def at_hand(name, *, mirror=None, cache=None):
    """Whether the mirror or the cache has the files of a data set; nothing is verified."""
    return _find(catalogue.get(name), _roots(mirror, cache)) is not None


def _roots(mirror, cache):
    """The mirror, if there is one, and the cache."""
    import pooch

    mirror = mirror or os.environ.get("BJMD_DATA")
    if mirror and not Path(mirror).is_dir():
        raise InputError(
            f"the mirror {mirror} is not a folder; check its path in the config or in BJMD_DATA"
        )
    return [Path(root) for root in (mirror, cache or pooch.os_cache("bjmd")) if root]


def _find(dataset, roots):
    """The folder that has all files of a data set, or else the archive, or None.

    The folder may be that of the archive, if it was unpacked by hand.
    """
    for root in roots:
        folder = root / dataset.folder
        for place in (folder, folder / dataset.archive.partition(".")[0]):
            paths = list(place.glob("*"))
            if all(_matching(member, paths) for member in dataset.members):
                return place
        if (folder / dataset.archive).is_file():
            return folder / dataset.archive
    return None


def _matching(member, paths):
    """The files of a member: the one with the first of its names, or all that match a pattern."""
    matches = ([path for path in paths if path.match(name)] for name in member.names)
    return sorted(next(filter(None, matches), []), key=lambda path: path.name)


def _download(dataset, roots, unverified):
    """The same as `files`, from one address after the other; only verified files stay."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    folder = roots[-1] / dataset.folder
    names = [dataset.archive] if dataset.archive else [one.names[0] for one in dataset.members]
    problems = []
    for address in dataset.addresses:
        store = pooch.create(
            path=folder,
            base_url=f"{address}/",
            registry=dict.fromkeys(names),
            urls={dataset.archive: address},
            retry_if_failed=RETRIES,
        )
        downloader = pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(), chunk_size=2**16, timeout=TIMEOUT
        )
        try:
            for name in names:
                Path(store.fetch(name, downloader=downloader)).chmod(0o644)
            # without an archive, the place is the folder itself
            return _unpacked(folder / dataset.archive, dataset, folder, unverified)
        except (requests.RequestException, InputError) as error:
            told = isinstance(error, (requests.HTTPError, InputError))
            problems.append(f"{address}: {error if told else 'no answer'}")
            for name in names:
                (folder / name).unlink(missing_ok=True)
    files_wanted = " and ".join(" or ".join(member.names) for member in dataset.members)
    places = " or ".join(str(root / dataset.folder) for root in roots)
    raise InputError(
        f"{dataset.name} is not in {places} and cannot be downloaded "
        f"({'; '.join(problems) or 'it has no public address'}); get "
        f"{dataset.archive or files_wanted} by hand from {dataset.page} and put it there"
    )


def _unpacked(place, dataset, folder, unverified):
    """The folder with the verified files, and a table of them; an archive is unpacked first."""
    if place.is_dir():
        return place, _verified(place, list(place.iterdir()), dataset, unverified)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        try:
            _extract(place, temporary)
        except DAMAGE as error:
            raise InputError(
                f"{place} is not a complete .zip or .tar.gz archive ({error}); download it again"
            ) from None
        paths = [path for path in Path(temporary).rglob("*") if path.is_file()]
        table = _verified(place, paths, dataset, unverified)
        for path in paths:
            if path.name in set(table["file"]):
                path.replace(folder / path.name)
    return folder, table


def _extract(archive, folder):
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)
    else:
        with tarfile.open(archive, "r:gz") as content:
            content.extractall(folder, filter="data")


def _verified(place, paths, dataset, unverified):
    """A row for each file of a data set; all of them are known, unless others are accepted."""
    import pandas as pd
    import pooch

    rows = []
    for member in dataset.members:
        mine = [
            {"file": path.name, "bytes": path.stat().st_size, "sha256": pooch.file_hash(str(path))}
            for path in _matching(member, paths)
        ]
        if not mine:
            raise InputError(f"{place} does not hold {' or '.join(member.names)}")
        digest = _digest(mine)
        known = digest in member.sha256
        if member.git_blob and not known:
            (path,) = _matching(member, paths)
            known = _git_blob(path.read_bytes()) == member.git_blob
        if not known:
            what = mine[0]["file"] if len(mine) == 1 else f"{len(mine)} files {member.names[0]}"
            versions = ", ".join(version[:8] for version in member.sha256)
            problem = (
                f"{what} in {place} is not a known version (its sha256 is {digest}; those of known "
                f"versions begin with {versions})"
            )
            if not unverified:
                raise InputError(
                    f"{problem}; get the files again, or, to use another version, list "
                    f"{dataset.name} under `unverified` in the config or add --unverified to "
                    "`bjmd datasets`"
                )
            log.warning("%s", problem)
        rows += [row | {"known": known} for row in mine]
    return pd.DataFrame(rows)


def _digest(rows):
    """The hash of the file of a member, or of the list of its many files."""
    if len(rows) == 1:
        return rows[0]["sha256"]
    listing = "".join(f"{row['sha256']}  {row['file']}\n" for row in rows)
    return hashlib.sha256(listing.encode()).hexdigest()


def _git_blob(content):
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
