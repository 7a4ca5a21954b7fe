"""Find the files of a data set in a mirror, in the cache or on the network, and verify them.

A mirror and the cache have the same layout: <root>/<folder of the data set>/<the archive, or its
files>.  So a cache that was filled on one machine is a mirror for a machine without network.

Only listed files are taken out of an archive, without their folders and within their known sizes,
so that no archive can write anywhere else; and their content must be known.
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
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue

log = logging.getLogger(__name__)

TIMEOUT = 30
"""Seconds to wait for a connection, and for the next bytes."""
RETRIES = 2
"""How often a failed download is tried again."""


def fetch_and_read(name, folder, *, read=None, mirror=None, cache=None):
    """A real data set as sources; an archive is unpacked for a moment within `folder`.

    `read` is another function of the folder with the files, in place of the data set's own.  The
    mirror (default: the environment variable BJMD_DATA) is searched first, then the cache
    (default: the user's cache directory), then the addresses of the catalogue.
    """
    dataset = catalogue.get(name)
    unpacked = Path(folder) / f".unpacked-{name}"
    shutil.rmtree(unpacked, ignore_errors=True)  # left behind if an earlier run was killed
    unpacked.mkdir(parents=True)
    try:
        files = _verified_files(dataset, unpacked, *_roots(mirror, cache))
        return (read or dataset.read)(files)
    finally:
        shutil.rmtree(unpacked)


def at_hand(name, *, mirror=None, cache=None):
    """Whether the mirror or the cache has the files of a data set; nothing is verified."""
    return any(root and _find(Path(root), catalogue.get(name)) for root in _roots(mirror, cache))


def _roots(mirror, cache):
    import pooch

    return mirror or os.environ.get("BJMD_DATA"), Path(cache or pooch.os_cache("bjmd"))


def _find(root, dataset):
    """The archive, or a folder with all members, or None."""
    folder = root / dataset.folder
    for archive in (folder / dataset.archive, root / dataset.archive):
        if archive.is_file():
            return archive
    complete = all(
        any(next(folder.glob(name), None) for name in member.names) for member in dataset.members
    )
    return folder if complete else None


def _verified_files(dataset, unpacked, mirror, cache):
    """A folder with the verified files: where they were found, or `unpacked`."""
    if mirror:
        if not Path(mirror).is_dir():
            raise InputError(
                f"the mirror {mirror} is not a folder; check its path in the config or in BJMD_DATA"
            )
        if found := _find(Path(mirror), dataset):
            return _verified(found, dataset, unpacked)
    if found := _find(cache, dataset):
        try:
            return _verified(found, dataset, unpacked)
        except InputError as error:
            names = _downloaded_names(dataset)
            by_hand = not dataset.addresses or (dataset.archive and found.is_dir())
            if by_hand:
                raise
            log.warning("%s; it is downloaded again", error)
            for path in [found] if dataset.archive else map(found.joinpath, names):
                path.unlink()
    return _download(dataset, cache / dataset.folder, unpacked)


def _downloaded_names(dataset):
    """The files that are downloaded: the archive, or the members one by one."""
    return [dataset.archive] if dataset.archive else [one.names[0] for one in dataset.members]


def _download(dataset, folder, unpacked):
    """Try one address after the other; only verified files stay in the cache."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    names = _downloaded_names(dataset)
    problems = []
    for address in dataset.addresses:
        urls = {name: address if dataset.archive else f"{address}/{name}" for name in names}
        registry = pooch.create(
            path=folder,
            base_url="",
            registry=dict.fromkeys(names),
            urls=urls,
            retry_if_failed=RETRIES,
        )
        downloader = pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(), chunk_size=2**16, timeout=TIMEOUT
        )
        try:
            paths = [Path(registry.fetch(name, downloader=downloader)) for name in names]
            try:
                files = _verified(paths[0] if dataset.archive else folder, dataset, unpacked)
            except InputError:
                for path in paths:
                    path.unlink()
                raise
            for path in paths:
                path.chmod(0o644)
            return files
        except requests.HTTPError as error:
            problems.append(f"{address}: {str(error).partition(' for url')[0]}")
        except requests.Timeout:
            problems.append(f"{address}: no answer in time")
        except requests.RequestException:
            problems.append(f"{address}: no connection")
        except InputError as error:
            problems.append(f"{address}: {error}")
    if problems:
        raise InputError(
            f"{', '.join(names)} could not be downloaded ({'; '.join(problems)}); download by hand "
            f"from {dataset.addresses[0]} (see {dataset.page}) and put into {folder}"
        )
    raise InputError(
        f"{dataset.name} cannot be downloaded automatically; download "
        f"{dataset.members[0].names[0]} by hand from {dataset.page} and put it into {folder}"
    )


def _verified(found, dataset, unpacked):
    """The folder with the files of an archive or of a folder, all of them known."""
    folder = found
    if not found.is_dir():
        _unpack(found, dataset.members, unpacked)
        folder = unpacked
    for member in dataset.members:
        paths = sorted({path for name in member.names for path in folder.glob(name)})
        _verify(member, paths, found)
    return folder


def _unpack(archive, members, folder):
    """Copy the wanted files of an archive into a folder."""
    with _damage_as_a_sentence(archive):
        for path, size, open_file in _entries(archive):
            name = PurePosixPath(path).name
            member = next((one for one in members if _matches(name, one)), None)
            if member is None:
                continue
            if size > member.most_bytes:
                raise InputError(
                    f"{name} in {archive} has {size} bytes, more than the {member.most_bytes} that "
                    "are known; it is not the expected archive"
                )
            with open_file() as source, (folder / name).open("wb") as target:
                shutil.copyfileobj(source, target)


def _matches(name, member):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in member.names)


def _entries(archive):
    """Path, size and a function that opens it, for every file in an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            for entry in content.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, lambda entry=entry: content.open(entry)
    else:
        with tarfile.open(archive, "r|gz") as content:
            for part in content:
                if part.isreg():
                    yield part.name, part.size, lambda part=part: content.extractfile(part)


@contextmanager
def _damage_as_a_sentence(archive):
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(
            f"{archive} is not a complete .zip or .tar.gz archive ({error}); download it again"
        ) from None


def _verify(member, paths, found):
    """Every file of a member has known content, and none is missing."""
    if not paths:
        raise InputError(
            f"{found} does not hold {' or '.join(member.names)}; it is not the expected archive"
        )
    if member.list_sha256:
        listing = "".join(f"{_sha256(path)}  {path.name}\n" for path in paths)
        if hashlib.sha256(listing.encode()).hexdigest() != member.list_sha256:
            raise InputError(
                f"{found} does not hold the {member.number} known files {member.names[0]}; some "
                "are missing or differ"
            )
        return
    for path in paths:
        sha256 = _sha256(path)
        by_git = member.git_blob and _git_blob(path) in member.git_blob
        if sha256 not in member.sha256 and not by_git:
            raise InputError(
                f"{path.name} in {found} is not a known version (its sha256 is {sha256}); "
                "download it again"
            )


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git_blob(path):
    content = path.read_bytes()
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
