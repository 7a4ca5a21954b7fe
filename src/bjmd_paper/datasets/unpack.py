"""Archives from elsewhere: only listed files come out, within their sizes, with known content, or
nothing does.

An archive is a .zip, a .tar.gz, or a folder that holds the files as they are.  One with a path that
leaves its folder, with a link, with more bytes than announced, or with other content than the
catalogue knows is refused as a whole.
"""

import errno
import fnmatch
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from bjmd.errors import InputError

MOST_UNPACKED_BYTES = 16 * 2**30
"""Of all files of an archive, wanted or not; the METABRIC study has about 3 GB."""
_CHUNK = 2**20


def verify(archive, dataset):
    """Refuse an archive that is not the one the catalogue describes."""
    archive = Path(archive)
    if archive.is_file() and dataset.sha256 and _sha256(archive) in dataset.sha256:
        return
    _read(archive, dataset.members)


def extract(archive, dataset, folder):
    """Put the data set's files, verified and without the archive's folders, into a new folder."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; remove it, or give another folder to unpack into")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir()
    try:
        _read(Path(archive), dataset.members, temporary)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _read(archive, members, folder=None):
    """Read all wanted files once, to check them and, if a folder is given, to write them there."""
    found: dict = {member: {} for member in members}
    announced = 0
    with _errors_as_sentences(archive):
        for path, size, open_file in _files(archive):
            announced += size
            if announced > MOST_UNPACKED_BYTES:
                raise InputError(
                    f"{archive} unpacks to more than {MOST_UNPACKED_BYTES} bytes; it is not the archive it should be"
                )
            name = PurePosixPath(path).name
            member = next(
                (m for m in members if any(fnmatch.fnmatchcase(name, known) for known in m.names)),
                None,
            )
            if member is None:
                continue
            if name in found[member]:
                raise InputError(
                    f"{archive} holds {name} twice; it is not the archive it should be"
                )
            with (
                open_file() as source,
                open(folder / name if folder else os.devnull, "wb") as target,
            ):
                found[member][name] = _copy(source, target, size, member, f"{name} in {archive}")
    for member, digests in found.items():
        _check(archive, member, digests)


def _copy(source, target, size, member, what):
    """Copy within the size limit and return the digests of the content."""
    if size > member.most_bytes:
        raise InputError(
            f"{what} has {size} bytes, more than the {member.most_bytes} it may have; nothing was unpacked"
        )
    sha256 = hashlib.sha256()
    git_blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    copied = 0
    while chunk := source.read(_CHUNK):
        copied += len(chunk)
        if copied > size:
            raise InputError(
                f"{what} has more than the {size} bytes it announces; nothing was unpacked"
            )
        sha256.update(chunk)
        git_blob.update(chunk)
        target.write(chunk)
    return sha256.hexdigest(), git_blob.hexdigest()


def _check(archive, member, digests):
    """Every file has known content, and none is missing."""
    if not digests:
        raise InputError(
            f"{archive} does not hold {' or '.join(member.names)}; it is not the archive it should be"
        )
    if member.list_sha256:
        listing = "".join(f"{digests[name][0]}  {name}\n" for name in sorted(digests))
        if hashlib.sha256(listing.encode()).hexdigest() != member.list_sha256:
            raise InputError(
                f"{archive} does not hold the known files {member.names[0]}; some are missing or differ"
            )
        return
    for name, (sha256, git_blob) in digests.items():
        if sha256 not in member.sha256 and git_blob not in member.git_blob:
            raise InputError(
                f"{name} in {archive} is not a known version (its sha256 is {sha256}); fetch it again"
            )


def _files(archive):
    """Each file's path, size and a function that opens it; refuses what is neither a file nor a
    folder.
    """
    if archive.is_dir():
        for path in sorted(archive.iterdir()):
            if path.is_file():
                yield path.name, path.stat().st_size, lambda path=path: path.open("rb")
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            for entry in content.infolist():
                mode = entry.external_attr >> 16
                _refuse_escape(archive, entry.filename, is_link=stat.S_ISLNK(mode))
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, lambda entry=entry: content.open(entry)
    else:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as content:
            for part in content:
                _refuse_escape(archive, part.name, is_link=not (part.isfile() or part.isdir()))
                if part.isfile():
                    yield part.name, part.size, lambda part=part: content.extractfile(part)


def _refuse_escape(archive, path, is_link):
    parsed = PureWindowsPath(path)  # knows both kinds of slash, and drives
    if parsed.anchor or ".." in parsed.parts:
        raise InputError(
            f"{archive} holds the path {path!r}, which leaves its folder; nothing was unpacked"
        )
    if is_link:
        raise InputError(
            f"{archive} holds {path!r}, which is a link or a device; nothing was unpacked"
        )


@contextmanager
def _errors_as_sentences(archive):
    if not archive.exists():
        raise InputError(f"{archive} does not exist; fetch it, or check the path")
    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        EOFError,
        RuntimeError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # a full disk, say; damage shows as an impossible position or has no number
        raise InputError(
            f"{archive} is not a complete .zip or .tar.gz archive ({error}); fetch it again"
        ) from None


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
