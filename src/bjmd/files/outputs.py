"""The folder that a fit is written to: tables, figures, a report, and the fit itself.

It appears when it is complete, so a reader never sees half of one.  It has those of these files
that apply:
"""

import fnmatch
import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.analysis.fitting import Summary
from bjmd.data.assembly import RawSource, Settings
from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files.readers import ANNDATA_ENDINGS, distinct
from bjmd.inference import registry
from bjmd.report import pages, tables
from bjmd.report.tables import Named
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition

FORMAT_VERSION = 1
OURS = "a complete folder of bjmd"
FILES: dict[str, str] = tomllib.loads(pages.ours("files.toml"))
"""What each file holds."""
__doc__ = f"{__doc__}" + "".join(f"    {name:<27}{what}\n" for name, what in FILES.items())


@dataclass
class Output(Named):
    """A fit in its folder: the restarts, best first, names, settings, and answers about the fit."""

    folder: Path
    results: list[Decomposition]
    settings: Settings
    answers: dict[str, pd.DataFrame]
    """The tables of pages.ANSWERS, as far as they were written."""
    files: list[str]
    n_restarts: int
    """How many were asked for; a search makes fewer."""

    def sections(self) -> list[pages.Section]:
        """The report, without figures."""
        with problems_as_sentences(self.folder, OURS):  # its tables may be damaged
            return pages.sections(
                self,
                self.results,
                self.answers,
                n_restarts=self.n_restarts,
                notes=self.settings.notes,
                files=described(self.files),
            )


def write(
    folder: str | Path,
    sources: Sources,
    summary: Summary,
    *,
    settings: Settings | None = None,
    raw_sources: Sequence[RawSource] = (),
    n_restarts: int | None = None,
    figures: bool = True,
    overwrite: bool = False,
) -> None:
    """Write everything about the restarts of one fit into a new folder.

    `settings` says how the sources were prepared and `raw_sources` what they were made of, so that
    the fit can be verified, and AnnData and MuData files can be copied with the fit in them.
    `n_restarts` were asked for; a search makes fewer.  A folder that is not empty is refused,
    unless it is an earlier output and `overwrite` is true.
    """
    require_free(folder, overwrite)
    settings = settings or Settings()
    best = summary.results[0]
    data = Named.of(sources)
    answers = tables.of_summary(data, summary)
    n_restarts = n_restarts or len(summary.results)
    with storage.atomic_path(folder) as new:
        new.mkdir()
        storage.save_decompositions(new / "fit.npz", summary.results, {"n_restarts": n_restarts})
        about_fit = tables.of_fit(data, summary.results)
        for name, table in {**about_fit, **answers}.items():
            _write_table(new / f"{name}.tsv", table)
        _write_patterns(new, data, best)
        if summary.consensus is not None:
            _write_patterns(new, data, summary.consensus.result, "consensus_")
        _write_rankings(new / "rankings", tables.scores(about_fit["ranking"]))
        _write_json(new / "settings.json", asdict(settings))
        if any(raw.path and raw.path.suffix.lower() in ANNDATA_ENDINGS for raw in raw_sources):
            from bjmd.files import anndata_files

            fit = (raw_sources, sources, best, settings)
            anndata_files.write_back(new, *fit, summary.variance_explained)
        if figures:
            _write_figures(new / "figures", data, best, answers)
        written = Output(
            **vars(data),
            folder=new,
            results=summary.results,
            settings=settings,
            answers=answers,
            files=[*_files(new), "names.json", "report.html", "summary.md"],
            n_restarts=n_restarts,
        )
        if raw_sources:
            written.files.append("hashes.json")
        _write_report(written)
        if raw_sources:
            hashes = {
                name: hash_of_source(raw) for name, raw in zip(data.names, raw_sources, strict=True)
            }
            _write_hashes(new, data=hashes, versions=storage.versions())


def _write_report(fit: Output) -> None:
    """names.json, and summary.md and report.html with the figures in the folder."""
    about = {"format": "bjmd", "format_version": FORMAT_VERSION, "files": fit.files}
    _write_json(fit.folder / "names.json", about | fit.to_json())
    pngs = {png.stem: png.read_bytes() for png in sorted(fit.folder.glob("figures/*.png"))}
    title = pages.title(fit, fit.results)
    sections = fit.sections()
    for name, show in (("summary.md", pages.markdown), ("report.html", pages.report)):
        (fit.folder / name).write_text(show(title, sections, pngs), encoding="utf-8")


def _write_hashes(folder: Path, **hashes: dict) -> None:
    """hashes.json: the given hashes, and those of all files."""
    files = [name for name in _files(folder) if name != "hashes.json"]
    hashes["files"] = {name: hash_of_file(folder / name) for name in files}
    _write_json(folder / "hashes.json", hashes)


def load(folder: str | Path) -> Output:
    """The fit and its names, from a folder that `write` made."""
    folder = Path(folder)
    names = _read_names(folder)
    if not names:
        raise InputError(
            f"{folder} is not a folder with the results of a fit (it has no names.json of bjmd); "
            "give one that `bjmd fit` wrote"
        )
    with problems_as_sentences(folder, OURS):
        results, about = storage.load_with_about(folder / "fit.npz")
        best = results[0]
        registry.get(best.method)
        shapes = [len(names["feature_names"]), *map(len, names["sample_names"])]
        if shapes != [len(best.components), *(h.shape[1] for h in best.memberships)]:
            raise ValueError("the names do not match the result")
        answers = {
            name: pd.read_csv(path, sep="\t")
            for name in pages.ANSWERS
            if (path := folder / f"{name}.tsv").exists()
        }
        return Output(
            **vars(Named.from_json(names)),
            folder=folder,
            results=results,
            files=names["files"],
            answers=answers,
            settings=Settings(**_read_json(folder / "settings.json")),
            n_restarts=(about or {}).get("n_restarts", len(results)),
        )


def add_check(folder: str | Path, table: pd.DataFrame) -> None:
    """Add the table of a check to the folder of a fit, and to its report."""
    with storage.atomic_path(folder) as new:
        shutil.copytree(folder, new)
        _write_table(new / "check.tsv", table)
        fit = load(new)
        fit.files = sorted({*fit.files, "check.tsv"})
        _write_report(fit)
        if "hashes.json" in fit.files:
            _write_hashes(new, **load_hashes(new))


def load_hashes(folder: Path) -> dict:
    """What hashes.json holds: data, versions and files."""
    if not (folder / "hashes.json").exists():
        raise InputError(
            f"the fit in {folder} has no hashes, so it cannot be verified: it was written by an "
            "older version, or from Python; fit again with `bjmd fit`"
        )
    with problems_as_sentences(folder / "hashes.json", storage.OURS):
        hashes = _read_json(folder / "hashes.json")
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


def require_free(
    folder: str | Path, overwrite: bool = False, ours: Collection[str] | None = None
) -> None:
    """Refuse a folder that holds anything other than an earlier output that may be overwritten.

    `ours` are the files that an earlier output may have; by default those that its names.json
    lists.  Ask before a long fit, so that its results are not lost in the end.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another name for the output folder")
    if ours is None:
        ours = _read_names(folder).get("files", ())
    present = _files(folder)
    foreign = next((name for name in present if name not in ours), None)
    if foreign is not None:
        raise InputError(
            f"folder {folder} holds {foreign!r}, which bjmd did not write; give a new or an empty "
            "folder"
        )
    if present and not overwrite:
        raise InputError(
            f"folder {folder} holds earlier results; give another folder, or allow them to be "
            "replaced (--force, in Python overwrite=True)"
        )


def _write_figures(
    folder: Path, data: Named, best: Decomposition, answers: dict[str, pd.DataFrame]
) -> None:
    """Every figure as .png and .svg."""
    from bjmd.report import figures

    folder.mkdir()
    for name, figure in figures.of_fit(data, best, answers).items():
        figures.save(figure, folder / f"{name}.svg", folder / f"{name}.png")


def _write_table(path: Path, table: pd.DataFrame) -> None:
    # objectives keep all digits: restarts often differ in the last ones only
    float_format = None if path.stem == "restarts" else "%.6g"
    named_rows = table.index.name is not None
    table = tables.without_formulas(table)
    table.to_csv(path, sep="\t", float_format=float_format, index=named_rows)


def _write_rankings(folder: Path, scores: dict[str, pd.DataFrame]) -> None:
    """A .rnk file for each component."""
    folder.mkdir()
    for component, table in scores.items():
        path = folder / f"{component}.rnk"
        table.to_csv(path, sep="\t", header=False, index=False, float_format="%.6g")


def _write_patterns(folder: Path, data: Named, result: Decomposition, prefix: str = "") -> None:
    """The components, and the memberships of every source."""
    components = tables.by_component(result.components, data.feature_names, "feature")
    _write_table(folder / f"{prefix}components.tsv", components)
    files = _membership_files(data.names)
    for file, h, samples in zip(files, result.memberships, data.sample_names, strict=True):
        _write_table(folder / f"{prefix}{file}", tables.by_component(h.T, samples, "sample"))


def _membership_files(names: list[str]) -> list[str]:
    """A file name for every source: letters, digits and _.- of its name, numbered where equal."""
    stems = [re.sub(r"[^\w.-]+", "_", name)[:60].strip("._") or "source" for name in names]
    return [f"memberships_{stem}.tsv" for stem in distinct(stems)]


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_names(folder: Path) -> dict:
    """The contents of names.json, or nothing if there is none of ours."""
    try:
        names = _read_json(folder / "names.json")
    except (OSError, ValueError, RecursionError):
        names = {}
    if not isinstance(names, dict) or names.get("format") != "bjmd":
        return {}
    version = names.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has format version {version!r} but {FORMAT_VERSION} is needed; fit again"
        )
    return names


def described(files: list[str]) -> dict[str, str]:
    """What each of these files and folders holds, in the order of FILES."""
    names = dict.fromkeys(re.sub("/.*", "/", name) for name in files)
    patterns = {re.sub("<[a-z]+>", "*", name): what for name, what in FILES.items()}
    return {
        name: what for pattern, what in patterns.items() for name in fnmatch.filter(names, pattern)
    }


def _files(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)
