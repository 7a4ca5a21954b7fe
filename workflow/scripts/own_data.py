"""Read the user's own files as sources that are ready for a fit, and keep the settings of the fit
beside them.
"""

import json
from dataclasses import asdict
from pathlib import Path

from bjmd.data import assembly
from bjmd.files import about_samples, readers
from bjmd.results import storage
from bjmd_paper.frame import script

with script(snakemake):
    own = snakemake.params.own
    reading = dict(own["reading"])
    raw_sources = readers.read_files(reading.pop("paths"), **reading)
    if own["labels"] is not None:
        about_samples.attach_labels(raw_sources, Path(own["labels"]), own["preparation"]["names"])
    sources, settings = assembly.prepare(raw_sources, **own["preparation"], reading=reading)
    storage.save_sources(snakemake.output.data, sources)
    Path(snakemake.output.settings).write_text(json.dumps(asdict(settings)), encoding="utf-8")
