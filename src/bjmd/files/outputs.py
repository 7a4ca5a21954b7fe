"""The folder that a fit is written to: tables, figures, a report, and the fit itself.

It appears when it is complete, so a reader never sees half of one.  It has these files:
"""

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bjmd.analysis.summary import Summary
from bjmd.data.assembly import RawSource, Settings
from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files.readers import ANNDATA_ENDINGS, distinct
from bjmd.inference import registry
from bjmd.report import pages, tables, text
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition, component_names

FORMAT_VERSION = 1
OURS = "a complete folder of bjmd"
NAMES = ("names", "feature_names", "sample_names", "n_missing", "class_names")
"""What names.json copies from the sources."""
FILES: dict[str, str] = tomllib.loads(pages.ours("files.toml"))
"""What each file holds."""
ANSWERS = (
    "components_by_source",
    "variance_explained",
    "associations",
    "residuals",
    "consensus",
    "check",
)
"""The tables, other than those of the fit itself, that the report shows."""
__doc__ = f"{__doc__}" + "".join(f"    {name:<27}{what}\n" for name, what in FILES.items())


@dataclass
class Output:
    """What `load` returns: the restarts, best first, names, settings, and answers about the fit."""

    folder: Path
    results: list[Decomposition]
    names: list[str]
    feature_names: list[str]
    sample_names: list[list[str]]
    n_missing: list[int]
    labels: list[np.ndarray] | None
    class_names: list[str]
    settings: Settings
    answers: dict[str, pd.DataFrame]
    """The tables of ANSWERS, as far as they were written."""
    files: list[str]

    def sections(self) -> list[text.Section]:
        """The report, without figures."""
        with problems_as_sentences(self.folder, OURS):  # its tables may be damaged
            files = described(self.files)
            return text.sections(self, self.results, self.settings.notes, files, self.answers)

    def to_xarray(self) -> Any:
        """Components, memberships and noise of the best restart as an xarray.Dataset.

        It has their standard deviations where they are known.
        """
        import xarray

        best = self.results[0]
        by_feature = ("feature", "component")
        by_sample = ("sample", "component")
        variables: dict[str, Any] = {
            "components": (by_feature, best.components),
            "memberships": (by_sample, np.hstack(best.memberships).T),
        }
        if best.noise is not None:
            variables["noise"] = ("source", best.noise)
        if best.posterior is not None:
            sds = [h.sd for h in best.posterior.memberships]
            variables["components_sd"] = (by_feature, best.posterior.components.sd)
            variables["memberships_sd"] = (by_sample, np.hstack(sds).T)
        source_of_sample = np.repeat(self.names, [len(names) for names in self.sample_names])
        coordinates = {
            "feature": self.feature_names,
            "component": component_names(best.n_components),
            "sample": [name for names in self.sample_names for name in names],
            "source": self.names,
            "source_of_sample": ("sample", source_of_sample),
        }
        return xarray.Dataset(variables, coordinates)


def write(
    folder: str | Path,
    sources: Sources,
    summary: Summary,
    *,
    settings: Settings | None = None,
    raw_sources: Sequence[RawSource] = (),
    figures: bool = True,
    overwrite: bool = False,
) -> list[text.Section]:
    """Write everything about the restarts of one fit into a new folder; returns the report's text.

    `settings` says how the sources were prepared and `raw_sources` what they were made of, so that
    the fit can be verified, and AnnData and MuData files can be copied with the fit in them.  A
    folder that is not empty is refused, unless it is an earlier output and `overwrite` is true.
    """
    require_free(folder, overwrite)
    best = summary.results[0]
    answers = tables.of_summary(sources, summary)
    with storage.atomic_path(folder) as new:
        new.mkdir()
        storage.save_decompositions(new / "fit.npz", summary.results)
        of_fit = tables.of_fit(sources, summary.results)
        for name, table in {**of_fit, **answers}.items():
            _write_table(new / f"{name}.tsv", table)
        _write_patterns(new, sources, best)
        if summary.consensus is not None:
            _write_patterns(new, sources, summary.consensus.result, "consensus_")
        _write_rankings(new, of_fit["ranking"])
        if settings is not None:
            _write_json(new / "settings.json", asdict(settings))
        if any(raw.path and raw.path.suffix.lower() in ANNDATA_ENDINGS for raw in raw_sources):
            from bjmd.files import anndata_files

            fit = (raw_sources, sources, best, settings or Settings())
            anndata_files.write_back(new, *fit, summary.variance_explained)
        has_hashes = settings is not None and len(raw_sources) > 0
        last_files = ["names.json", "hashes.json"] if has_hashes else ["names.json"]
        parts = _write_report(new, sources, summary, answers, settings, figures, last_files)
        _write_json(new / "names.json", _names(sources, [*_files(new), *last_files]))
        if has_hashes:
            hashes = map(hash_of_source, raw_sources)
            _write_hashes(
                new, data=dict(zip(sources.names, hashes, strict=True)), versions=storage.versions()
            )
    return parts


def _write_hashes(folder: Path, **hashes: dict) -> None:
    """hashes.json: the given hashes, and those of all files."""
    files = [name for name in _files(folder) if name != "hashes.json"]
    hashes["files"] = {name: hash_of_file(folder / name) for name in files}
    _write_json(folder / "hashes.json", hashes)


def load(folder: str | Path) -> Output:
    """The fit and its names, from a folder that `write` made."""
    folder = Path(folder)
    names = _read_names(folder)
    if names is None:
        raise InputError(
            f"{folder} is not a folder with the results of a fit (it has no names.json of bjmd); "
            "give one that `bjmd fit` wrote"
        )
    with problems_as_sentences(folder, OURS):
        results = storage.load_decompositions(folder / "fit.npz")
        _require_names(names, results[0])
        labels = names["labels"]
        if labels:
            labels = [_indicator(classes, len(names["class_names"])) for classes in labels]
        answers = {
            name: pd.read_csv(path, sep="\t")
            for name in ANSWERS
            if (path := folder / f"{name}.tsv").exists()
        }
        return Output(
            folder=folder,
            results=results,
            labels=labels,
            answers=answers,
            files=names["files"],
            settings=_read_settings(folder / "settings.json"),
            **{name: names[name] for name in NAMES},
        )


def add_check(folder: str | Path, table: pd.DataFrame) -> None:
    """Add the table of a check to the folder of a fit, and to its report."""
    folder = Path(folder)
    with storage.atomic_path(folder) as new:
        shutil.copytree(folder, new)
        _write_table(new / "check.tsv", table)
        names = _read_names(new) or {}
        names["files"] = sorted({*names["files"], "check.tsv"})
        _write_json(new / "names.json", names)
        fit = load(new)
        pngs = {png.stem: png.read_bytes() for png in sorted(new.glob("figures/*.png"))}
        _write_pages(new, fit, fit.results, fit.sections(), pngs)
        if (new / "hashes.json").exists():
            _write_hashes(new, **load_hashes(new))


def load_hashes(folder: Path) -> dict:
    """What hashes.json holds: data, versions and files."""
    if not (folder / "hashes.json").exists():
        raise InputError(
            f"the fit in {folder} has no hashes, so it cannot be verified: it was written by an "
            "older version, or from Python; fit again with `bjmd fit`"
        )
    with problems_as_sentences(folder / "hashes.json", storage.OURS):
        hashes = json.loads((folder / "hashes.json").read_text(encoding="utf-8"))
        return {name: dict(hashes[name]) for name in ("data", "versions", "files")}


def hash_of_source(raw: RawSource) -> str:
    """Of the numbers and names of a source, whatever the format of its file."""
    names = json.dumps([raw.matrix.shape, raw.feature_names, raw.sample_names])
    digest = hashlib.sha256(names.encode())
    for part in as_matrix(raw.matrix, raw.name).numbers():
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def hash_of_file(path: Path) -> str | None:
    """Of the content of a file; None if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def require_free(folder: str | Path, overwrite: bool = False) -> None:
    """Refuse a folder that holds anything other than an earlier output that may be overwritten.

    Ask before a long fit, so that its results are not lost in the end.
    """
    folder = Path(folder)
    if not names_in(folder):
        return
    earlier = _read_names(folder)
    if earlier is None:
        raise InputError(f"folder {folder} holds other files; give a new or an empty folder")
    if not overwrite:
        raise InputError(
            f"folder {folder} holds the results of an earlier fit; give another folder, or allow "
            "it to be replaced (--force, in Python overwrite=True)"
        )
    foreign = sorted(set(_files(folder)) - set(earlier["files"]))
    if foreign:
        raise InputError(
            f"folder {folder} holds {foreign[0]!r}, which bjmd did not write; move it away first"
        )


def names_in(folder: Path) -> set[str]:
    """The names of everything in a folder, which need not exist; a file is refused."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another name for the output folder")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _write_report(
    folder: Path,
    sources: Sources,
    summary: Summary,
    answers: dict[str, pd.DataFrame],
    settings: Settings | None,
    with_figures: bool,
    more_files: list[str],
) -> list[text.Section]:
    """Figures, summary.md and report.html, which lists what is there; returns the text."""
    pngs: dict[str, bytes] = {}
    if with_figures:
        from bjmd.report import figures, style

        (folder / "figures").mkdir()
        for name, figure in figures.of_summary(sources, summary, answers).items():
            png = folder / "figures" / f"{name}.png"
            style.save(figure, png.with_suffix(".svg"), png)
            pngs[name] = png.read_bytes()
    notes = settings.notes if settings else ()
    files = described([*_files(folder), "report.html", "summary.md", *more_files])
    parts = text.sections(sources, summary.results, notes, files, answers)
    _write_pages(folder, sources, summary.results, parts, pngs)
    return parts


def _write_pages(
    folder: Path,
    data: tables.Named,
    results: list[Decomposition],
    parts: list[text.Section],
    pngs: dict[str, bytes],
) -> None:
    """summary.md and report.html, with the figures that were drawn."""
    heading = text.title(data, results)
    (folder / "summary.md").write_text(text.markdown(heading, parts, pngs), encoding="utf-8")
    (folder / "report.html").write_text(text.page(heading, parts, pngs), encoding="utf-8")


def _write_table(path: Path, table: pd.DataFrame) -> None:
    # objectives keep all digits: restarts often differ in the last ones only
    float_format = None if path.stem == "restarts" else "%.6g"
    named_rows = table.index.name is not None
    table = tables.without_formulas(table)
    table.to_csv(path, sep="\t", float_format=float_format, index=named_rows)


def _write_rankings(folder: Path, table: pd.DataFrame) -> None:
    """A .rnk file for each component: every feature and its score, the highest first."""
    (folder / "rankings").mkdir()
    scored = table.assign(score=table["z"].fillna(table["difference"]))
    ranked = scored.sort_values("score", ascending=False, kind="stable")
    for component, part in ranked.groupby("component"):
        path = folder / "rankings" / f"{component}.rnk"
        columns = ["feature", "score"]
        part.to_csv(path, sep="\t", columns=columns, header=False, index=False, float_format="%.6g")


def _write_patterns(
    folder: Path, sources: Sources, result: Decomposition, prefix: str = ""
) -> None:
    """The components, and the memberships of every source."""
    components = tables.by_component(result.components, sources.feature_names, "feature")
    _write_table(folder / f"{prefix}components.tsv", components)
    file_names = _membership_files(sources.names)
    blocks = zip(file_names, result.memberships, sources.sample_names, strict=True)
    for name, h, samples in blocks:
        memberships = tables.by_component(h.T, samples, "sample")
        _write_table(folder / f"{prefix}{name}", memberships)


def _membership_files(names: list[str]) -> list[str]:
    """A file name for every source: letters, digits and _.- of its name, numbered where equal."""
    stems = [re.sub(r"[^\w.-]+", "_", name)[:60].strip("._") or "source" for name in names]
    return [f"memberships_{stem}.tsv" for stem in distinct(stems)]


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _names(sources: Sources, files: list[str]) -> dict:
    """What names.json holds; it lists our files, so that others in the folder are never deleted."""
    labels = sources.labels
    if labels is not None:
        labels = [[np.flatnonzero(sample).tolist() for sample in block.T] for block in labels]
    return {
        "format": "bjmd",
        "format_version": FORMAT_VERSION,
        **{name: getattr(sources, name) for name in NAMES},
        "labels": labels,
        "files": files,
    }


def _read_names(folder: Path) -> dict | None:
    """The contents of names.json, or None if there is none of ours."""
    try:
        names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        if names["format"] != "bjmd":
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    version = names.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has format version {version!r} but {FORMAT_VERSION} is needed; fit again"
        )
    return names


def _require_names(names: dict, result: Decomposition) -> None:
    """Refuse names that do not belong to the fit."""
    registry.get(result.method)
    sample_names = names["sample_names"]
    counts = [len(names[key]) for key in ("n_missing", "names", "feature_names")]
    counts += [len(block) for block in sample_names]
    n_sources = len(result.memberships)
    expected = [n_sources, n_sources, len(result.components)]
    expected += [h.shape[1] for h in result.memberships]
    strings = [*names["names"], *names["feature_names"]]
    strings += [name for block in sample_names for name in block]
    are_strings = all(isinstance(name, str) for name in strings)
    are_counts = {*map(type, names["n_missing"])} == {int}
    if counts != expected or not are_strings or not are_counts:
        raise ValueError("the names do not match the result")


def _read_settings(path: Path) -> Settings:
    if not path.exists():
        return Settings()
    settings = Settings(**json.loads(path.read_text(encoding="utf-8")))
    texts = (*settings.files, *settings.notes, settings.scale, *settings.reading.keys())
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("settings are not text")
    return settings


def _indicator(classes: list[list[int]], n_classes: int) -> np.ndarray:
    """Boolean classes x samples from the classes of every sample."""
    indicator = np.zeros((n_classes, len(classes)), dtype=bool)
    for sample, members in enumerate(classes):
        indicator[members, sample] = True
    return indicator


def described(files: list[str]) -> dict[str, str]:
    """What each of these files and folders holds, in the order of FILES."""
    names = dict.fromkeys(re.sub("/.*", "/", name) for name in files)
    found: dict[str, str] = {}
    for patterns, what in FILES.items():
        for pattern in re.sub("<[a-z]+>", "*", patterns).split(", "):
            found |= {name: what for name in names if fnmatch(name, pattern) and name not in found}
    return found


def _files(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)
