"""Write the folder with the results on the user's own data: tables, figures and report."""

import json
from pathlib import Path

from bjmd.files import outputs, readers
from bjmd.files.tables import Settings
from bjmd.results import storage
from bjmd_paper.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    settings = Settings(**json.loads(Path(snakemake.input.settings).read_text(encoding="utf-8")))
    results = [run for path in snakemake.input.fits for run in storage.load_decompositions(path)]
    tables = readers.read_tables(**snakemake.params.own["reading"])
    outputs.write(snakemake.output[0], sources, results, settings=settings, tables=tables)


run_script(main, snakemake)
