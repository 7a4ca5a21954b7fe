"""Write the folder with the results on the user's own data: tables, figures and report."""

import json
from pathlib import Path

from bjmd.analysis.fitting import summarise
from bjmd.data.assembly import Settings
from bjmd.errors import FitError
from bjmd.files import outputs, readers
from bjmd.results import storage
from bjmd_paper import failures
from bjmd_paper.frame import script

with script(snakemake):
    for reason in failures.sentences(snakemake.input.fits):
        raise FitError(reason)
    sources = storage.load_sources(snakemake.input.data)
    settings = Settings(**json.loads(Path(snakemake.input.settings).read_text(encoding="utf-8")))
    results = failures.results(snakemake.input.fits)["own"]
    raw_sources = readers.read_files(**snakemake.params.own["reading"])
    summary = summarise(sources, results, metadata=[raw.metadata for raw in raw_sources])
    outputs.write(snakemake.output[0], sources, summary, settings=settings, raw_sources=raw_sources)
