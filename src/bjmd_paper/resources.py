"""What a job of the workflow will need, in seconds and megabytes, from the shape of its data.

A sweep of every method touches each stored entry K times and does K x K work for each feature and
each sample, so

    work = K (entries + K (M + N)),

and a restart takes a constant and some seconds per unit of work.  The constants in this file bound
the CPU seconds and the resident memory of single fits on one core of a cloud machine (x86-64, AVX2)
with the synthetic data, 3Sources, Yale B, METABRIC with 489 genes, and made-up data of METABRIC's
full size.  A cluster is asked for more than that (`Need.mem_mb`, `Need.runtime`), and for twice as
much in a retry.
"""

import json
import math
import os
import zipfile
from dataclasses import dataclass, replace

from bjmd.inference import registry
from bjmd_paper.datasets import catalogue

SLACK_SECONDS = 3
SLACK_MB = 1.5
"""How many times the estimate is asked for: nodes differ in speed by more than in what Python
needs.
"""
START_SECONDS = 30
"""Snakemake starts twice in a job, NumPy and SciPy are imported, and the first job compiles the
updates.
"""
START_MB = 800
"""Python with NumPy, SciPy and numba's or PyMC's compiler (400), and the two Snakemakes that start
it (200 each).
"""
LEAST_MINUTES = 10
"""No cluster gains from a shorter limit, and the first access to shared storage may take minutes.
"""


@dataclass(frozen=True)
class Need:
    """What one job is expected to take."""

    seconds: float
    mb: float

    def runtime(self, attempt=1):
        """The time limit to ask for, in minutes."""
        return math.ceil(max(LEAST_MINUTES, SLACK_SECONDS * self.seconds / 60) * 2 ** (attempt - 1))

    def mem_mb(self, attempt=1):
        """The memory limit to ask for."""
        return math.ceil(SLACK_MB * self.mb * 2 ** (attempt - 1))


@dataclass(frozen=True)
class Shape:
    """All samples of a data set side by side."""

    n_features: int
    n_samples: int
    n_entries: int
    """All entries of dense sources, the non-zeros of sparse ones."""

    @property
    def mb(self):
        sparse = self.n_entries < self.n_features * self.n_samples
        return (
            self.n_entries * (12 if sparse else 8) / 1e6
        )  # a sparse entry has an index beside its value

    def factor_mb(self, n_components):
        """W and H."""
        return (self.n_features + self.n_samples) * n_components * 8 / 1e6

    def work(self, n_components):
        """Millions of multiplications in a sweep."""
        return (
            n_components
            * (self.n_entries + n_components * (self.n_features + self.n_samples))
            / 1e6
        )


def shape(path, expected):
    """The shape of a data set as it is stored, or, before it is there, as `expected()` says."""
    try:
        return stored_shape(path) if os.path.exists(path) else expected()
    except (
        zipfile.BadZipFile,
        LookupError,
        ValueError,
        OSError,
    ):  # the job that reads it says what is wrong
        return expected()


def stored_shape(path):
    """The shape of a data set that `storage.save_sources` wrote, without reading its matrices."""
    with zipfile.ZipFile(path) as archive:
        metadata = json.loads(archive.read("metadata.json"))
        values = [
            entry
            for entry in archive.infolist()
            if entry.filename.endswith(("/dense.npy", "/data.npy"))
        ]
    n_entries = (
        sum(entry.file_size - 128 for entry in values) // 8
    )  # a .npy file has 128 bytes of header
    return Shape(metadata["n_features"], sum(metadata["n_samples"]), n_entries)


def expected_shape(family):
    """The shape of data that are not there yet: exact for synthetic data, an upper bound for real
    ones.
    """
    entry = catalogue.family(family)
    if entry.kind == "synthetic":
        n_features = entry.n_features
        n_samples = 3 * entry.samples_per_source
        return Shape(n_features, n_samples, n_features * n_samples)
    n_entries = round(
        file_mb(entry) * 1e6 / 8
    )  # a number takes about 8 bytes of text, in a table as in a sparse list
    if entry.paper is None:
        return Shape(math.isqrt(n_entries), math.isqrt(n_entries), n_entries)
    n_features = entry.paper.n_features
    n_samples = sum(entry.paper.groups.values())
    return Shape(n_features, n_samples, min(n_features * n_samples, n_entries))


def shape_of_files(paths):
    """The shape of people's own files before they are read, taken to be square and dense, with 2
    bytes a number.

    That is an upper bound for text; gzipped numbers rarely take less.
    """
    n_entries = sum(os.path.getsize(path) for path in paths) // 2
    return Shape(math.isqrt(n_entries), math.isqrt(n_entries), n_entries)


def file_mb(dataset):
    """The size of the files of a real data set, unpacked."""
    if any(
        member.list_sha256 for member in dataset.members
    ):  # many files of one pattern, whose number is not known
        return dataset.most_bytes / 1e6
    return sum(member.most_bytes for member in dataset.members) / 1e6


LONG_SECONDS = 900
MOST_THREADS = 4
"""A chunk of restarts that takes longer than this in one thread is given more."""


def fit(method, shape, n_components, n_restarts, options, n_threads=1):
    """A chunk of restarts of one fit; ADVI is taken to need all the iterations that it may."""
    work = shape.work(n_components)
    cost = registry.get(method).cost
    if cost == "gradients":
        n_unknowns = (shape.n_features + shape.n_samples) * n_components
        n_iterations = (registry.get(method).options() | options)["max_iterations"]
        restart = 10 + n_iterations * (3e-4 + 2.5e-7 * n_unknowns + 2e-4 * work)
    elif cost == "sweeps":
        n_sweeps = (
            100 + 1.3 * n_components**2
        )  # 35 to 130 with few components, the allowed 2000 on Yale B with 38
        restart = 1 + 7e-4 * n_sweeps * work
    else:
        restart = 4 + 0.55 * work  # BNMF's NMF and five hundred draws; the others take less
    # The data as they are and made non-negative; for each thread, all samples side by side and what
    # the baselines copy of those; and the results with their posteriors.
    mb = START_MB + (2 + 3 * n_threads) * shape.mb + n_restarts * 4 * shape.factor_mb(n_components)
    return Need(START_SECONDS + math.ceil(n_restarts / n_threads) * restart, mb)


def fit_threads(method, shape, n_components, n_restarts, options):
    """Restarts that one job runs at a time.  Fits by ADVI take turns, so one thread does for them."""
    if registry.get(method).cost == "gradients":
        return 1
    seconds = fit(method, shape, n_components, n_restarts, options).seconds
    return min(MOST_THREADS, n_restarts, math.ceil(seconds / LONG_SECONDS))


def draw(scale, n_draws, levels, jobs, n_restarts, **_):
    """Some draws: every fit at every sigma3.  Synthetic data have few components, and fits of them
    take few sweeps.
    """
    shape = expected_shape(scale)
    n_components = catalogue.family(scale).n_components
    run = 0.02 + 7e-4 * 40 * shape.work(n_components)
    return Need(
        START_SECONDS + n_draws * len(levels) * len(jobs) * n_restarts * run,
        START_MB + 5 * shape.mb,
    )


def advi_trace(n_draws, max_iterations):
    """ADVI on some draws of the small data."""
    n_components = catalogue.family("small").n_components
    return fit(
        "advi-bjmd",
        expected_shape("small"),
        n_components,
        n_draws,
        {"max_iterations": max_iterations},
    )


def feature_draw(n_draws, extras, jobs, n_restarts):
    """The fits on some draws of the small data with more and more features, each before and after
    the test.
    """
    small = expected_shape("small")
    shapes = [replace(small, n_features=small.n_features + extra) for extra in extras]
    shapes = [replace(shape, n_entries=shape.n_features * shape.n_samples) for shape in shapes]
    needs = [
        fit(job["method"], shape, job["n_components"], n_restarts, job["options"])
        for shape in [*shapes, *[small] * len(extras)]
        for job in jobs.values()
    ]
    seconds = n_draws * sum(need.seconds - START_SECONDS for need in needs)
    return Need(START_SECONDS + seconds, max(need.mb for need in needs))


def read(shape):
    """Reading people's own files: text, of 2 bytes a number, at 5 MB a second."""
    return Need(START_SECONDS + 2 * shape.n_entries / 5e6, START_MB + 2 * shape.mb)


def look(shape, n_components, n_runs):
    """Reading a data set and the results of some restarts on it, to write and to draw them."""
    mb = shape.mb + n_runs * 4 * shape.factor_mb(n_components)
    return Need(START_SECONDS + mb / 20, START_MB + 2 * mb)
