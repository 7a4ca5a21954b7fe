"""The folder that a fit is written to: tables, figures, a report, and the fit itself.

It appears when it is complete, so a reader never sees half of one.  It has these files:
"""

import hashlib
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bjmd.analysis.summary import Summary
from bjmd.data.assembly import RawSource, Settings
from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files.readers import ANNDATA_ENDINGS
from bjmd.inference import registry
from bjmd.report import pages, tables, text
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition

FORMAT_VERSION = 1
NAMES = ("names", "feature_names", "sample_names", "n_missing", "class_names")
"""What names.json copies from the sources."""
FILES: dict[str, str] = tomllib.loads(pages.ours("files.toml"))
"""What each file holds."""
ANSWERS = ("variance_explained", "residuals", "associations", "consensus", "check")
"""The tables, other than those of the fit itself, that the report shows."""
__doc__ = f"{__doc__}" + "".join(f"    {name:<27}{what}\n" for name, what in FILES.items())


@dataclass
class Output:
    """What `load` returns: the restarts, best first, names, settings, and answers about the fit."""

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

    def sections(self) -> list[text.Section]:
        """The report, without figures."""
        notes = self.settings.notes
        return text.sections(self, self.results, notes, FILES, self.answers)

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
            "component": tables.component_names(best),
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
    with new_folder(folder) as new:
        storage.save_decompositions(new / "fit.npz", summary.results)
        for name, table in {**tables.of_fit(sources, summary.results), **answers}.items():
            _write_table(new / f"{name}.tsv", table)
        _write_patterns(new, sources, best)
        if summary.consensus is not None:
            _write_patterns(new, sources, summary.consensus.result, "consensus_")
        parts = _write_report(new, sources, summary, answers, settings, figures)
        if settings is not None:
            _write_json(new / "settings.json", asdict(settings))
        if any(raw.path and raw.path.suffix.lower() in ANNDATA_ENDINGS for raw in raw_sources):
            from bjmd.files import anndata_files

            anndata_files.write_back(new, raw_sources, sources, best, summary.variance_explained)
        has_hashes = settings is not None and len(raw_sources) > 0
        last_files = ["names.json", "hashes.json"] if has_hashes else ["names.json"]
        _write_json(new / "names.json", _names(sources, [*_files(new), *last_files]))
        if settings is not None and has_hashes:
            hashes = {
                "data": {
                    name: hash_of_source(raw)
                    for name, raw in zip(sources.names, raw_sources, strict=True)
                },
                "settings": hash_of_settings(summary.results, settings, storage.versions()),
                "versions": storage.versions(),
                "files": {name: hash_of_file(new / name) for name in _files(new)},
            }
            _write_json(new / "hashes.json", hashes)
    return parts


def load(folder: str | Path) -> Output:
    """The fit and its names, from a folder that `write` made."""
    folder = Path(folder)
    names = _read_names(folder)
    if names is None:
        raise InputError(
            f"{folder} is not a folder with the results of a fit (it has no names.json of bjmd); "
            "give one that `bjmd fit` wrote"
        )
    with storage.complete(folder):
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
            results=results,
            labels=labels,
            answers=answers,
            settings=_read_settings(folder / "settings.json"),
            **{name: names[name] for name in NAMES},
        )


def add_check(folder: str | Path, table: pd.DataFrame) -> None:
    """Add the table of a check to the folder of a fit, and to its report."""
    folder = Path(folder)
    with new_folder(folder) as new:
        shutil.copytree(folder, new, dirs_exist_ok=True)
        _write_table(new / "check.tsv", table)
        fit = load(new)
        pngs = {png.stem: png.read_bytes() for png in sorted(new.glob("figures/*.png"))}
        _write_pages(new, fit, fit.results, fit.sections(), pngs)
        names = _read_names(new) or {}
        _write_json(new / "names.json", names | {"files": sorted({*names["files"], "check.tsv"})})
        if (new / "hashes.json").exists():
            hashes = load_hashes(new)
            files = [name for name in _files(new) if name != "hashes.json"]
            hashes["files"] = {name: hash_of_file(new / name) for name in files}
            _write_json(new / "hashes.json", hashes)


def load_hashes(folder: Path) -> dict:
    """What hashes.json holds: data, settings, versions and files."""
    if not (folder / "hashes.json").exists():
        raise InputError(
            f"the fit in {folder} has no hashes, so it cannot be verified: it was written by an "
            "older version, or from Python; fit again with `bjmd fit`"
        )
    with storage.complete(folder / "hashes.json"):
        hashes = json.loads((folder / "hashes.json").read_text(encoding="utf-8"))
        types = [type(hashes[name]) for name in ("settings", "data", "versions", "files")]
        if types != [str, dict, dict, dict]:
            raise ValueError("it is damaged")
        return hashes


def hash_of_source(raw: RawSource) -> str:
    """Of the numbers and names of a source, whatever the format of its file."""
    digest = hashlib.sha256(_json([raw.matrix.shape, raw.feature_names, raw.sample_names]))
    for part in as_matrix(raw.matrix, raw.name).numbers():
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def hash_of_settings(
    results: Sequence[Decomposition], settings: Settings, versions: dict[str, str]
) -> str:
    """Of everything other than the data that the numbers depend on."""
    runs = [[run.method, run.n_components, run.seed, run.options] for run in results]
    preparation = [settings.scale, settings.divisors, settings.reading]
    return hashlib.sha256(_json([runs, preparation, versions])).hexdigest()


def hash_of_file(path: Path) -> str | None:
    """Of the content of a file; None if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


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


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A temporary folder that replaces `folder` if the block succeeds and vanishes if it fails."""
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / "new"
        old = Path(temporary) / "old"
        new.mkdir()  # with the user's usual permissions, which the temporary one lacks
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def _write_report(
    folder: Path,
    sources: Sources,
    summary: Summary,
    answers: dict[str, pd.DataFrame],
    settings: Settings | None,
    with_figures: bool,
) -> list[text.Section]:
    """Figures, summary.md and report.html; returns the text."""
    pngs: dict[str, bytes] = {}
    if with_figures:
        from bjmd.report import figures, style

        (folder / "figures").mkdir()
        for name, figure in figures.of_summary(sources, summary, answers).items():
            png = folder / "figures" / f"{name}.png"
            style.save(figure, png.with_suffix(".svg"), png)
            pngs[name] = png.read_bytes()
    notes = settings.notes if settings else ()
    parts = text.sections(sources, summary.results, notes, FILES, answers)
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
    charts = None
    if pngs:
        from bjmd.report import interactive

        if interactive.is_installed():
            charts = interactive.of_fit(data, results[0])
    heading = text.title(data, results)
    (folder / "summary.md").write_text(text.markdown(heading, parts, pngs), encoding="utf-8")
    (folder / "report.html").write_text(text.page(heading, parts, pngs, charts), encoding="utf-8")


def _write_table(path: Path, table: pd.DataFrame) -> None:
    # objectives keep all digits: restarts often differ in the last ones only
    float_format = None if path.stem == "restarts" else "%.6g"
    named_rows = table.index.name is not None
    table = tables.without_formulas(table)
    table.to_csv(path, sep="\t", float_format=float_format, index=named_rows)


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
    files: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^\w.-]+", "_", name)[:60].strip("._") or "source"
        unique = stem
        number = 2
        while unique.lower() in files:  # some file systems do not distinguish A from a
            unique = f"{stem}_{number}"
            number += 1
        files[unique.lower()] = f"memberships_{unique}.tsv"
    return list(files.values())


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
    texts = (*settings.files, *settings.notes, settings.scale)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("settings are not text")
    return settings


def _indicator(classes: list[list[int]], n_classes: int) -> np.ndarray:
    """Boolean classes x samples from the classes of every sample."""
    indicator = np.zeros((n_classes, len(classes)), dtype=bool)
    for sample, members in enumerate(classes):
        indicator[members, sample] = True
    return indicator


def _files(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)
