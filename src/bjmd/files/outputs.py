"""The folder that a fit is written to: tables to read in anything, figures, a report, and the fit
itself.

It appears when it is complete, so a reader never sees half of one.  It has these files:
"""

import json
import re
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bjmd.analysis import variance
from bjmd.analysis.associations import associations
from bjmd.analysis.check import Finding, check
from bjmd.analysis.consensus import Consensus
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import anndata_files, hashes
from bjmd.files.tables import Settings, Table
from bjmd.inference import registry, restarts
from bjmd.report import interactive, pages, text
from bjmd.report import tables as frames
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition

FORMAT_VERSION = 1
NAMES = ("names", "feature_names", "sample_names", "n_missing", "class_names")
"""What names.json has of the sources as it is."""
FILES: dict[str, str] = tomllib.loads(pages.ours("files.toml"))
"""What each file holds."""
MORE = ("variance_explained", "associations", "consensus")
"""Of these files, what the report is made of."""
__doc__ = f"{__doc__}" + "".join(f"    {name:<27}{what}\n" for name, what in FILES.items())


@dataclass
class Output:
    """What `load` gives back: the restarts, best first, the names of their rows and columns, and
    the settings.
    """

    results: list[Decomposition]
    names: list[str]
    feature_names: list[str]
    sample_names: list[list[str]]
    n_missing: list[int]
    labels: list[np.ndarray] | None
    class_names: list[str]
    settings: Settings
    findings: list[Finding] | None
    more: dict[str, pd.DataFrame]
    """What else was found, by the name of its file."""

    def sections(self) -> list[text.Section]:
        """The report, without figures."""
        return text.sections(
            self, self.results, self.settings.notes, FILES, self.findings, self.more
        )

    def to_xarray(self) -> Any:
        """Components, memberships and noise of the best restart, with sds where known, as an
        xarray.Dataset.
        """
        import xarray

        best = self.results[0]
        posterior = self.results[0].posterior
        of = np.repeat(self.names, [len(names) for names in self.sample_names])
        found: dict[str, Any] = {"components": (("feature", "component"), best.components)}
        found["memberships"] = (("sample", "component"), np.hstack(best.memberships).T)
        if best.noise is not None:
            found["noise"] = ("source", best.noise)
        if posterior is not None:
            found["components_sd"] = (("feature", "component"), posterior.components.sd)
            found["memberships_sd"] = (
                ("sample", "component"),
                np.hstack([h.sd for h in posterior.memberships]).T,
            )
        samples = [name for names in self.sample_names for name in names]
        coords = {
            "feature": self.feature_names,
            "component": frames.component_names(best),
            "sample": samples,
        }
        return xarray.Dataset(
            found, {**coords, "source": self.names, "source_of_sample": ("sample", of)}
        )


def write(
    folder: str | Path,
    sources: Sources,
    results: Sequence[Decomposition],
    *,
    settings: Settings | None = None,
    tables: Sequence[Table] = (),
    consensus: Consensus | None = None,
    figures: bool = True,
    overwrite: bool = False,
) -> list[text.Section]:
    """Write everything about the restarts of one fit into a new folder, and give back the text of
    the report.

    `settings` tells how the sources were made, and `tables` what they were made of, so that the fit
    can be verified and AnnData and MuData files can be written back with it in them.  A folder that
    holds something is refused, unless it is an earlier output and `overwrite` is true.
    """
    require_free(folder, overwrite)
    ranked = restarts.best(results, len(results))
    with new_folder(folder) as new:
        storage.save_decompositions(new / "fit.npz", ranked)
        _write_tables(new, sources, ranked)
        findings = None
        more = {}
        if registry.get(ranked[0].method).infers_bjmd:
            findings = check(sources, ranked[0])
            more["variance_explained"] = frames.variance_explained(
                sources, variance.explained(sources, ranked[0])
            )
            if any(table.metadata is not None for table in tables):
                found = associations(ranked[0].memberships, [table.metadata for table in tables])
                more |= {"associations": found} if len(found) else {}
            if consensus is not None:
                more["consensus"] = frames.consensus(ranked[0], consensus)
                _write_patterns(new, sources, consensus.result, "consensus_")
            for name, table in {"check": frames.findings(findings), **more}.items():
                _write(table, new / f"{name}.tsv")
        pngs = _draw(new / "figures", sources, ranked, findings or [], more) if figures else {}
        charts = interactive.of_fit(sources, ranked[0]) if figures else None
        heading = text.title(sources, ranked)
        parts = text.sections(
            sources, ranked, settings.notes if settings else (), FILES, findings, more
        )
        (new / "summary.md").write_text(text.markdown(heading, parts, pngs), encoding="utf-8")
        (new / "report.html").write_text(text.page(heading, parts, pngs, charts), encoding="utf-8")
        if settings is not None:
            _write_json(new / "settings.json", asdict(settings))
        anndata_files.write_back(new, tables, sources, ranked[0])
        last = ["names.json", "hashes.json"] if settings is not None and tables else ["names.json"]
        _write_json(new / "names.json", _names(sources, [*_files(new), *last]))
        if settings is not None and tables:
            known = {
                "data": {
                    name: hashes.of_table(table)
                    for name, table in zip(sources.names, tables, strict=True)
                },
                "settings": hashes.of_settings(ranked, settings, storage.versions()),
                "versions": storage.versions(),
                "files": {name: hashes.of_file(new / name) for name in _files(new)},
            }
            _write_json(new / "hashes.json", known)
    return parts


def load(folder: str | Path) -> Output:
    """The fit and its names, from a folder that `write` made."""
    folder = Path(folder)
    names = _read_names(folder)
    if names is None:
        lacks = "is not a folder with the results of a fit (bjmd wrote no names.json there)"
        raise InputError(f"{folder} {lacks}; give one that `bjmd fit` wrote")
    with storage.complete(folder):
        results = storage.load_decompositions(folder / "fit.npz")
        _require_names(names, results[0])
        labels = names["labels"]
        settings = folder / "settings.json"
        made = (
            Settings(**json.loads(settings.read_text(encoding="utf-8")))
            if settings.exists()
            else Settings()
        )
        if not all(isinstance(text, str) for text in (*made.files, *made.notes, made.scale)):
            raise ValueError("settings are not text")
        return Output(
            results=results,
            labels=labels
            and [_indicator(classes, len(names["class_names"])) for classes in labels],
            findings=_findings(folder / "check.tsv"),
            more={
                name: pd.read_csv(path, sep="\t")
                for name in MORE
                if (path := folder / f"{name}.tsv").exists()
            },
            settings=made,
            **{name: names[name] for name in NAMES},
        )


def load_hashes(folder: Path) -> dict:
    """What hashes.json holds: data, settings, versions and files."""
    if not (folder / "hashes.json").exists():
        raise InputError(
            f"the fit in {folder} carries no hashes, so it cannot be verified: it was written by an older version, or "
            "from Python; make it again with `bjmd fit`"
        )
    parts = ("data", "versions", "files")
    with storage.complete(folder / "hashes.json"):
        kept = json.loads((folder / "hashes.json").read_text(encoding="utf-8"))
        if not (
            isinstance(kept["settings"], str)
            and all(isinstance(kept[name], dict) for name in parts)
        ):
            raise ValueError("it is damaged")
        return kept


def _require_names(names: dict, result: Decomposition) -> None:
    """Refuse names that are not those of the fit."""
    registry.get(result.method)
    counts = [len(names[of]) for of in ("n_missing", "names", "feature_names")] + [
        *map(len, names["sample_names"])
    ]
    expected = [len(result.memberships)] * 2 + [
        len(result.components),
        *(h.shape[1] for h in result.memberships),
    ]
    strings = [
        *names["names"],
        *names["feature_names"],
        *(name for block in names["sample_names"] for name in block),
    ]
    are_names = all(isinstance(name, str) for name in strings) and {
        *map(type, names["n_missing"])
    } == {int}
    if counts != expected or not are_names:
        raise ValueError("names do not fit the result")


def require_free(folder: str | Path, overwrite: bool = False) -> None:
    """Refuse a folder that holds anything but an earlier output that may be overwritten; nothing is
    touched.

    Ask before a long fit, so that it is not lost in the end.
    """
    folder = Path(folder)
    if not held_names(folder):
        return
    earlier = _read_names(folder)
    if earlier is None:
        raise InputError(f"folder {folder} holds other files; give a new or an empty folder")
    if not overwrite:
        raise InputError(
            f"folder {folder} holds the results of an earlier fit; give another folder, or allow it to be replaced "
            "(--force, in Python overwrite=True)"
        )
    foreign = sorted(set(_files(folder)) - set(earlier["files"]))
    if foreign:
        raise InputError(
            f"folder {folder} holds {foreign[0]!r}, which bjmd did not write; move it away first"
        )


def held_names(folder: Path) -> set[str]:
    """The names of all that a folder holds, which need not exist; refused where it is a file."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another name for the output folder")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A temporary folder that replaces `folder` when the block ends well and vanishes when it does
    not.
    """
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


def _write(table: pd.DataFrame, path: Path) -> None:
    frames.harmless(table).to_csv(
        path, sep="\t", float_format="%.6g", index=table.index.name is not None
    )


def _write_patterns(
    folder: Path, sources: Sources, result: Decomposition, prefix: str = ""
) -> None:
    each = zip(
        _membership_files(sources.names), result.memberships, sources.sample_names, strict=True
    )
    for name, h, samples in each:
        _write(frames.by_component(h.T, samples, "sample"), folder / f"{prefix}{name}")
    components = frames.by_component(result.components, sources.feature_names, "feature")
    _write(components, folder / f"{prefix}components.tsv")


def _write_tables(folder: Path, sources: Sources, results: list[Decomposition]) -> None:
    best = results[0]
    _write_patterns(folder, sources, best)
    _write(frames.top_features_table(sources, best), folder / "top_features.tsv")
    if best.posterior:
        sd = frames.by_component(best.posterior.components.sd, sources.feature_names, "feature")
        _write(sd, folder / "components_sd.tsv")
    if best.noise is not None:
        _write(frames.noise(sources, best), folder / "noise.tsv")
    for name, table in frames.beyond_the_paper(sources, best).items():
        _write(table, folder / f"{name}.tsv")
    # objectives need all their digits: restarts often differ in the last ones only
    frames.restarts(results).to_csv(folder / "restarts.tsv", sep="\t", index=False)


def _findings(path: Path) -> list[Finding] | None:
    """The findings of a check without what their pictures need; None where nothing was checked."""
    if not path.exists():
        return None
    table = pd.read_csv(path, sep="\t", keep_default_na=False)
    return [
        Finding(
            row.finding,
            float(row.statistic),
            float(row.threshold),
            float(row.p_value) if row.p_value != "" else None,
            row.where.split("; ") if row.where else [],
            row.sentence,
            {},
        )
        for row in table.itertuples()
    ]


def _draw(
    folder: Path,
    sources: Sources,
    results: list[Decomposition],
    findings: list[Finding],
    more: dict[str, pd.DataFrame],
) -> dict[str, bytes]:
    """Save every figure, of the check those of alarms; returns the bytes of the .png by name."""
    from bjmd.report import check_figures, figures, style

    folder.mkdir()
    pngs = {}
    drawn = figures.of_fit(sources, results, more)
    drawn |= {
        text.figure_of(finding): check_figures.figure(finding)
        for finding in findings
        if finding.alarm
    }
    for name, figure in drawn.items():
        png = folder / f"{name}.png"
        style.save(figure, folder / f"{name}.svg", png)
        pngs[name] = png.read_bytes()
    return pngs


def _membership_files(names: list[str]) -> list[str]:
    """A file name for every source: letters, digits and _.- of its name, and a number where two
    would be the same.
    """
    taken: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^\w.-]+", "_", name)[:60].strip("._") or "source"
        unique = stem
        number = 2
        while unique.lower() in taken:  # some file systems do not tell A from a
            unique = f"{stem}_{number}"
            number = number + 1
        taken[unique.lower()] = f"memberships_{unique}.tsv"
    return list(taken.values())


def _names(sources: Sources, files: list[str]) -> dict:
    """What names.json holds; it lists the files, so that what a user adds to the folder is never
    taken for ours.
    """
    labels = sources.labels
    if labels is not None:
        labels = [[np.flatnonzero(sample).tolist() for sample in block.T] for block in labels]
    known = {name: getattr(sources, name) for name in NAMES}
    return {
        "format": "bjmd",
        "format_version": FORMAT_VERSION,
        **known,
        "labels": labels,
        "files": files,
    }


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_names(folder: Path) -> dict | None:
    """The contents of names.json, or None where there is none of ours."""
    try:
        names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        if names["format"] != "bjmd":
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    version = names.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has format version {version!r} but {FORMAT_VERSION} is needed; fit again"
        )
    return names


def _indicator(classes: list[list[int]], n_classes: int) -> np.ndarray:
    """Boolean classes x samples from the classes of every sample."""
    indicator = np.zeros((n_classes, len(classes)), dtype=bool)
    for sample, of in enumerate(classes):
        indicator[of, sample] = True
    return indicator


def _files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    )
