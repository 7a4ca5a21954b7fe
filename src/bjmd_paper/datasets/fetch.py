"""Get the files of a data set: from a mirror directory, from the cache, or from the network; always
verified.

A mirror and the cache have the same layout: <root>/<folder of the data set>/<archive, or the files
themselves>.  So a cache that was filled on one machine is a mirror for another one without network.
"""

import hashlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

import pooch
import requests
from tqdm import tqdm

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue, unpack

log = logging.getLogger(__name__)

WAITS = (1, 4, 16)
"""Seconds before each new attempt at one address."""
TIMEOUT = (10, 60)
"""Seconds to wait for a connection, and for the next bytes."""
_WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}
_CHUNK = 2**16


def fetch(name, *, mirror=None, cache=None):
    """The path of the verified archive, or of the folder with the files, of one data set.

    The mirror (default: the environment variable BJMD_DATA) is looked at first, then the cache
    (default: the user's cache directory), then the addresses of the catalogue.
    """
    dataset = catalogue.get(name)
    mirror, cache = _roots(mirror, cache)
    if mirror:
        if not Path(mirror).is_dir():
            raise InputError(
                f"the mirror {mirror} is not a folder; check its path (in the config or in BJMD_DATA)"
            )
        if found := _find(Path(mirror), dataset):
            unpack.verify(found, dataset)
            return found
    if found := _find(cache, dataset):
        try:
            unpack.verify(found, dataset)
            return found
        except InputError as error:
            if not dataset.addresses or found.is_dir():
                raise
            log.warning("%s; it is downloaded again", error)
            found.unlink()
    return _download(dataset, cache / dataset.folder)


def fetch_and_read(name, folder, *, mirror=None, cache=None):
    """The prepared data set; its files are unpacked for a moment in a new folder within `folder`."""
    archive = fetch(name, mirror=mirror, cache=cache)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacked-") as temporary:
        unpack.extract(archive, catalogue.get(name), Path(temporary) / "files")
        return catalogue.get(name).sources(Path(temporary) / "files")


def at_hand(name, *, mirror=None, cache=None):
    """Whether the mirror or the cache has the files of a data set; nothing is downloaded or
    verified.
    """
    return any(root and _find(Path(root), catalogue.get(name)) for root in _roots(mirror, cache))


def _roots(mirror, cache):
    return mirror or os.environ.get("BJMD_DATA"), Path(cache or pooch.os_cache("bjmd"))


def _find(root, dataset):
    """Where the archive is, or a folder with all members, or None."""
    folder = root / dataset.folder
    for archive in (folder / dataset.archive, root / dataset.archive):
        if archive.is_file():
            return archive
    if all(
        any(next(folder.glob(name), None) for name in member.names) for member in dataset.members
    ):
        return folder
    return None


def _download(dataset, folder):
    """Try one address after the other."""
    problems = []
    for address in dataset.addresses:
        try:
            return _download_from(address, dataset, folder)
        except (requests.RequestException, InputError) as error:
            problems.append(f"{address}: {_in_short(error)}")
            log.info("%s", problems[-1])
    if problems:
        raise InputError(
            f"{dataset.archive} could not be downloaded ({'; '.join(problems)}); fetch it by hand from "
            f"{dataset.addresses[0]} (see {dataset.page}) and put it into {folder}"
        )
    raise InputError(
        f"{dataset.name} cannot be downloaded by a program; fetch {dataset.members[0].names[0]} by hand from "
        f"{dataset.page} and put it into {folder}"
    )


def _download_from(address, dataset, folder):
    """Try one address again and again, with growing pauses; pooch moves what arrived and is
    verified into the cache.
    """
    pooch.get_logger().setLevel("WARNING")  # it would print checksums that we know
    for wait in (*WAITS, None):
        try:
            return Path(
                pooch.retrieve(
                    address,
                    known_hash=None,
                    fname=dataset.archive,
                    path=folder,
                    downloader=_Resuming(dataset),
                )
            )
        except requests.RequestException as error:
            if wait is None or (
                error.response is not None and error.response.status_code not in _WORTH_RETRYING
            ):
                raise
            log.info("%s: %s; trying again in %d s", address, _in_short(error), wait)
            time.sleep(wait)


class _Resuming:
    """A pooch downloader that continues where an earlier attempt, or an earlier run, was cut off."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __call__(self, address, output_file, _pooch):
        # One part per address, since the archives at two addresses may differ.
        mark = hashlib.sha256(address.encode()).hexdigest()[:8]
        part = Path(output_file).with_name(f"{self.dataset.archive}.{mark}.part")
        resumed = self._receive(address, part)
        try:
            unpack.verify(part, self.dataset)
        except InputError as error:
            part.unlink()
            if (
                resumed
            ):  # perhaps the file changed on the server in between: once more, from the beginning
                raise requests.ConnectionError(str(error)) from None
            raise
        os.replace(part, output_file)

    def _receive(self, address, part):
        """Append to the part what the server sends; True if that began in the middle."""
        have = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(address, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if have and response.status_code == requests.codes.requested_range_not_satisfiable:
                return True  # nothing is left to send
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0
            rest = int(response.headers.get("Content-Length", 0))
            bar = tqdm(
                desc=self.dataset.archive,
                initial=have,
                total=have + rest if rest else None,
                unit="B",
                unit_scale=True,
                disable=not sys.stderr.isatty(),
            )
            with part.open("ab" if have else "wb") as file, bar:
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
                    bar.update(len(chunk))
                    if file.tell() > self.dataset.most_bytes:
                        break
        if part.stat().st_size > self.dataset.most_bytes:
            part.unlink()
            raise InputError(
                f"{address} sends more than {self.dataset.most_bytes} bytes; it is not {self.dataset.archive}"
            )
        return have > 0


def _in_short(error):
    """A few words for a sentence; the text of a requests error is long and repeats the address."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut off"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error).removesuffix("; fetch it again")
