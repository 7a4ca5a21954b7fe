"""Find the files of a data set in a mirror, in the cache or on the network, and verify them.

A mirror and the cache have the same layout: <root>/<folder of the data set>/<the archive, or its
files>.  So a cache that was filled on one machine is a mirror for a machine without network.

An archive is unpacked into the cache.  Only listed files are taken out of it, without their folders
and after their content was found to be known, so that no archive can write anything else, or
anywhere else.  Providers pack archives anew, so it is the files in them that have a known hash.
"""

import fnmatch
import hashlib
import logging
import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue

log = logging.getLogger(__name__)

TIMEOUT = 30
"""Seconds to wait for a connection, and for the next bytes."""
RETRIES = 2
"""How often a failed download is tried again."""
LFS_POINTER = b"version https://git-lfs."
"""How a file begins that only says where Git LFS keeps the content."""
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError)
"""What libraries raise while they read a damaged archive."""


def files(name, *, mirror=None, cache=None, unverified=False):
    """The folder with the files of a data set, and a table of them.

    The mirror (default: the environment variable BJMD_DATA) is searched first, then the cache
    (default: the user's cache directory), then the addresses of the catalogue.  With `unverified`,
    other versions of the files are taken as well; the table has a row for each file and says
    whether it is known.
    """
    import pandas as pd

    dataset = catalogue.get(name)
    roots = _roots(mirror, cache)
    place = _find(dataset, roots) or _download(dataset, roots, unverified)
    rows = _verified(place, dataset, unverified)
    if place.is_file():
        place = _unpack(place, rows, roots[-1] / dataset.folder)
    return place, pd.DataFrame(rows)


def at_hand(name):
    """Whether the mirror or the cache has the files of a data set; nothing is verified."""
    return _find(catalogue.get(name), _roots(mirror=None, cache=None)) is not None


def refusal(name, *, mirror=None, cache=None, unverified=False):
    """Why a data set cannot be used without a download, or None if it can.

    The answer is remembered in .snakemake until a file changes, because a workflow asks for it in
    every job.
    """
    from joblib import Memory

    dataset = catalogue.get(name)
    place = _find(dataset, _roots(mirror, cache))
    if place is None:
        return "its files were not found"
    paths = [place] if place.is_file() else sorted(place.iterdir())
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    remembered = Memory(".snakemake/bjmd", verbose=0).cache(_refusal)
    return remembered(place, dataset, unverified, stamps)


def _refusal(place, dataset, unverified, stamps):
    try:
        _verified(place, dataset, unverified)
    except InputError as error:
        return str(error)
    return None


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
    """The folder that has all files of a data set, or else the archive, or None."""
    for root in roots:
        for folder in _folders(dataset, root):
            names = os.listdir(folder)
            if all(_matching(member, names) for member in dataset.members):
                return folder
            if dataset.archive in names:
                return folder / dataset.archive
    return None


def _folders(dataset, root):
    """Where its files may be: its folder, and that of its archive if it was unpacked by hand."""
    folder = root / dataset.folder
    unpacked = folder / dataset.archive.partition(".")[0]
    return [place for place in dict.fromkeys((folder, unpacked)) if place.is_dir()]


def _matching(member, names):
    """Those names that may be a member: the first of its names, or all that match its pattern."""
    matches = (sorted(fnmatch.filter(names, pattern)) for pattern in member.names)
    return next(filter(None, matches), [])


def _download(dataset, roots, unverified):
    """Try one address after the other; only verified files stay in the cache."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    folder = roots[-1] / dataset.folder
    place = folder / dataset.archive  # the folder itself if there is no archive
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
            _verified(place, dataset, unverified)
            return place
        except requests.HTTPError as error:
            problems.append(str(error))
        except requests.RequestException:
            problems.append(f"{address}: no connection, or no answer in time")
        except InputError as error:
            problems.append(f"{address}: {error}")
            for name in names:
                (folder / name).unlink()
    how = "cannot be downloaded automatically"
    if problems:
        how = f"could not be downloaded ({'; '.join(problems)})"
    folders = [str(root / dataset.folder) for root in roots]
    present = [
        name
        for root in roots
        for folder in _folders(dataset, root)
        for member in dataset.members
        for name in _matching(member, os.listdir(folder))
    ]
    there = f"only {', '.join(present)}" if present else "nothing of it"
    wanted = dataset.archive or " and ".join(map(_any_name, dataset.members))
    it = "it" if len(names) == 1 else "them"
    raise InputError(
        f"{dataset.name} {how}, and {there} is in {' or '.join(folders)}; download {wanted} by "
        f"hand from {dataset.page} and put {it} into {folders[0]}"
    )


def _any_name(member):
    first, *others = member.names
    return f"{first} (or {', '.join(others)})" if others else first


def _verified(place, dataset, unverified):
    """A row for each file of a data set in a folder or an archive, all of them known."""
    try:
        rows = [
            _row(place, *entry)
            for entry in _entries(place)
            if any(_matching(member, [entry[0]]) for member in dataset.members)
        ]
    except DAMAGE as error:
        raise InputError(
            f"{place} is not a complete .zip or .tar.gz archive ({error}); download it again"
        ) from None
    verified = []
    for member in dataset.members:
        names = _matching(member, {row["file"] for row in rows})
        if not names:
            raise InputError(
                f"{place} does not hold {_any_name(member)}; it is not the expected archive"
            )
        of_member = sorted(
            (row for row in rows if row["file"] in names), key=lambda row: row["file"]
        )
        problem = _problem(of_member, member, place)
        if problem and not unverified:
            raise InputError(
                f"{problem}; get the files again, or, to use another version, list "
                f"{dataset.name} under `unverified` in the config or add --unverified to "
                "`bjmd datasets`"
            )
        if problem:
            log.warning("%s", problem)
        verified += [row | {"known": not problem} for row in of_member]
    return verified


def _row(place, name, size, open_file):
    """Name, size and hash of a file; a pointer of Git LFS is refused."""
    with open_file() as stream:
        if stream.peek(len(LFS_POINTER)).startswith(LFS_POINTER):
            raise InputError(
                f"{name} in {place} is a pointer of Git LFS and not the file itself; run `git lfs "
                "pull` in the repository that it comes from, and copy the file again"
            )
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"file": name, "bytes": size, "sha256": digest}


def _problem(rows, member, place):
    """How the file of a member, or its many files together, differ from known ones, or None."""
    digest = rows[0]["sha256"]
    if len(rows) > 1:
        listing = "".join(f"{row['sha256']}  {row['file']}\n" for row in rows)
        digest = hashlib.sha256(listing.encode()).hexdigest()
    if digest in member.sha256:
        return None
    if member.git_blob and _git_blob(place / rows[0]["file"]) == member.git_blob:
        return None
    if member.number > 1:
        return (
            f"{len(rows)} files {member.names[0]} are in {place}; they are not the "
            f"{member.number} known ones, or some of them differ"
        )
    versions = ", ".join(known[:8] for known in member.sha256)
    return (
        f"{rows[0]['file']} in {place} is not a known version (its sha256 is {rows[0]['sha256']}; "
        f"those of known versions begin with {versions})"
    )


def _git_blob(path):
    content = path.read_bytes()
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _unpack(archive, rows, folder):
    """Copy the verified files of an archive into a folder."""
    wanted = {row["file"] for row in rows}
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, open_file in _entries(archive):
        if name in wanted:
            part = folder / f"{name}.part"
            with open_file() as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
            part.replace(folder / name)
    return folder


def _entries(place):
    """Name, size and a function that opens it, for every file in a folder or an archive."""
    if place.is_dir():
        for path in place.iterdir():
            if path.is_file():
                yield path.name, path.stat().st_size, lambda path=path: path.open("rb")
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as content:
            for entry in content.infolist():
                name = PurePosixPath(entry.filename).name
                yield name, entry.file_size, lambda entry=entry: content.open(entry)
    else:
        with tarfile.open(place, "r|gz") as content:
            for part in content:
                if part.isreg():
                    name = PurePosixPath(part.name).name
                    yield name, part.size, lambda part=part: content.extractfile(part)
