"""What `bjmd fit` and the workflow do alike with people's files, before a fit and after it.

Before: tables are brought together and scaled.  After: the folder of the fit gets settings.json, which tells what it
was made from and what `bjmd transform` must know to treat new samples alike, and copies of AnnData files with the
result in them.
"""

import json
from pathlib import Path

from bjmd.data import preparation
from bjmd.files import readers

SETTINGS = "settings.json"

_SCALES = {"mean": "mean", "rms": "root mean square"}


def prepare(tables, *, names=None, labels=None, join="outer", scale="none"):
    """The sources of a fit, and its settings; among these are `notes`, sentences for the user and the report."""
    sources, alignment = readers.assemble(tables, names=names, labels=labels, join=join)
    divisors = preparation.scales(sources, scale)
    notes = [f"{str(alignment)[0].upper()}{str(alignment)[1:]}."] if len(sources) > 1 else []
    if scale != "none":
        sources = preparation.divided(sources, divisors)
        notes.append(f"Each source was divided by its {_SCALES[scale]}.")
    files = list(dict.fromkeys(str(table.path) for table in tables))
    return sources, {"files": files, "notes": notes, "scale": scale, "divisors": divisors.tolist()}


def add_to(folder, settings, tables, sources, best):
    """Put the settings, and copies of AnnData and MuData files with the result in them, into the folder of a fit."""
    (folder / SETTINGS).write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if any(table.path.suffix.lower() in (".h5ad", ".h5mu") for table in tables):
        from bjmd.files import anndata_files

        anndata_files.write_back(folder, tables, sources, best)


def settings_of(folder):
    """The settings in the folder of a fit; none if it was written from Python."""
    path = Path(folder) / SETTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
