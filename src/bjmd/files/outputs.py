"""The folder that a user gets from a fit: tables to read in anything, pictures, a report, and the fit itself.

    fit.npz                    all restarts, best first (storage.load_decompositions)
    names.json                 names of sources, features, samples and classes
    memberships_<source>.tsv   samples x components
    components.tsv             features x components; components_sd.tsv where the method has a posterior
    noise.tsv                  noise sd of every source, with sd and 90 % credible interval
    restarts.tsv               seed, objective and how it ended, of every restart
    settings.json              how people's files were prepared (own_data.py)
    figures/                   every picture as .png and .svg
    summary.md, report.html    what was found, in words; the page has the pictures inside

The folder appears when it is complete, so a reader never sees half of one.
"""

import json
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.errors import InputError
from bjmd.fits import restarts, storage
from bjmd.fits.decomposition import Decomposition
from bjmd.report import figures, style, text

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Output:
    """What `load` gives back: the restarts, best first, and the names that belong to their rows and columns."""

    results: list[Decomposition]
    names: list[str]
    feature_names: list[str]
    sample_names: list[list[str]]
    n_missing: list[int]
    labels: list[np.ndarray] | None
    class_names: list[str]


def write(folder, sources, results, *, notes=(), figures=True, add=None, overwrite=False):
    """Write everything about the restarts of one fit into a new folder.

    `notes` are sentences about the data for the summary, for example how features were brought together; `add(folder)`
    may write more files into it.  A folder that holds something is refused, unless it is an earlier output and
    `overwrite` is true.
    """
    results = restarts.best(results, len(results))
    best = results[0]
    with _new_folder(folder, overwrite) as new:
        storage.save_decompositions(new / "fit.npz", results)
        for path, h, samples in zip(_membership_files(sources), best.memberships, sources.sample_names, strict=True):
            _table(h.T, samples, best, "sample").to_csv(new / path, sep="\t", float_format="%.6g")
        features = sources.feature_names
        _table(best.components, features, best, "feature").to_csv(new / "components.tsv", sep="\t", float_format="%.6g")
        marginals = best.posterior and best.posterior.components
        if marginals is not None:
            sds = _table(marginals.sd, features, best, "feature")
            sds.to_csv(new / "components_sd.tsv", sep="\t", float_format="%.6g")
        if best.noise is not None:
            noise = text.noise_table(sources, best)
            noise.to_csv(new / "noise.tsv", sep="\t", index=False, float_format="%.6g")
        _restarts_table(results).to_csv(new / "restarts.tsv", sep="\t", index=False)

        pngs = _draw(new / "figures", sources, results) if figures else {}
        heading = text.title(sources, results)
        parts = text.sections(sources, results, notes=notes, pictures=pngs)
        (new / "summary.md").write_text(text.markdown(heading, parts), encoding="utf-8")
        (new / "report.html").write_text(text.page(heading, parts, pngs), encoding="utf-8")
        if add is not None:
            add(new)
        _write_names(new, sources)


def load(folder):
    """The fit and its names, from a folder that `write` made."""
    folder = Path(folder)
    names = _read_names(folder)
    if names is None:
        raise InputError(
            f"{folder} is not a folder with the results of a fit by bjmd (it has no names.json of bjmd's); give "
            "the one that `bjmd fit` wrote"
        )
    labels = names["labels"]
    if labels is not None:
        labels = [_indicator(classes, len(names["class_names"])) for classes in labels]
    return Output(
        results=storage.load_decompositions(folder / "fit.npz"),
        names=names["names"],
        feature_names=names["feature_names"],
        sample_names=names["sample_names"],
        n_missing=names["n_missing"],
        labels=labels,
        class_names=names["class_names"],
    )


def require_free(folder, overwrite=False):
    """Refuse a folder that holds something else than an earlier output that may be overwritten; nothing is touched.

    Ask before a long fit, so that it is not lost in the end.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another name for the output folder")
    if not folder.exists() or not any(folder.iterdir()):
        return
    earlier = _read_names(folder)
    if earlier is None:
        raise InputError(f"folder {folder} holds other files; give a new or an empty folder")
    if not overwrite:
        raise InputError(
            f"folder {folder} holds the results of an earlier fit; give another one, or say that it may be "
            "overwritten (overwrite=True, on the command line --force)"
        )
    foreign = sorted(set(_files(folder)) - set(earlier["files"]))
    if foreign:
        raise InputError(f"folder {folder} holds {foreign[0]!r}, which bjmd did not write; move it away first")


@contextmanager
def _new_folder(folder, overwrite):
    """A temporary folder that becomes `folder` when the block ends well and vanishes when it does not."""
    require_free(folder, overwrite)
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()  # with the user's usual permissions, which the temporary one has not
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def _draw(folder, sources, results):
    """Save every picture that makes sense for the fit; returns the bytes of the .png by name."""
    best = results[0]
    drawn = {
        "memberships": figures.memberships(sources, best),
        "membership_bars": figures.membership_bars(sources, best),
        "components": figures.components(sources, best, n_features=10 if best.n_components <= 12 else 6),
        "convergence": figures.convergence(results),
    }
    if best.noise is not None:
        drawn["noise"] = figures.noise(sources, best)
    if best.n_components > 1:
        drawn["simplex"] = figures.simplex(sources, best)
    if len(results) > 1:
        drawn["stability"] = figures.stability(results)
    folder.mkdir()
    for name, figure in drawn.items():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # both files have the layout of this one drawing, which is slow to find
        style.save(figure, folder / f"{name}.svg", folder / f"{name}.png")
    return {name: (folder / f"{name}.png").read_bytes() for name in drawn}


def _table(values, rows, result, what):
    return pd.DataFrame(values, index=pd.Index(rows, name=what), columns=figures.component_names(result))


def _restarts_table(results):
    fields = ("seed", "objective", "converged", "reason", "seconds")
    return pd.DataFrame([{field: getattr(result, field) for field in fields} for result in results])


def _membership_files(sources):
    """A file name for every source: letters, digits and _.- of its name, and a number where two would be the same."""
    taken = {}
    for name in sources.names:
        stem = re.sub(r"[^\w.-]+", "_", name)[:60].strip("._") or "source"
        unique, number = stem, 2
        while unique.lower() in taken:  # some file systems do not tell A from a
            unique, number = f"{stem}_{number}", number + 1
        taken[unique.lower()] = f"memberships_{unique}.tsv"
    return list(taken.values())


def _write_names(folder, sources):
    """Last, for it also lists the files, so that what a user adds to the folder is never taken for ours."""
    labels = sources.labels
    if labels is not None:
        labels = [[np.flatnonzero(sample).tolist() for sample in block.T] for block in labels]
    names = {
        "format": "bjmd",
        "format_version": FORMAT_VERSION,
        "names": sources.names,
        "feature_names": sources.feature_names,
        "sample_names": sources.sample_names,
        "n_missing": [int(n) for n in sources.n_missing],
        "class_names": sources.class_names,
        "labels": labels,
        "files": [*_files(folder), "names.json"],
    }
    (folder / "names.json").write_text(json.dumps(names, indent=1, ensure_ascii=False), encoding="utf-8")


def _read_names(folder):
    """The contents of names.json, or None where there is none of ours."""
    try:
        names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        if names["format"] != "bjmd":
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if names["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"{folder} has format version {names['format_version']} but {FORMAT_VERSION} is needed; fit again"
        )
    return names


def _indicator(classes, n_classes):
    """Boolean classes x samples from the classes of every sample."""
    indicator = np.zeros((n_classes, len(classes)), dtype=bool)
    for sample, of in enumerate(classes):
        indicator[of, sample] = True
    return indicator


def _files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
