"""All restarts on one's own data become the folder that a user gets: tables, pictures, report."""

import json
from pathlib import Path

from bjmd.files import outputs, own_data, readers
from bjmd.fits import restarts, storage
from bjmd.paper.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    settings = json.loads(Path(snakemake.input.settings).read_text(encoding="utf-8"))
    results = [run for path in snakemake.input.fits for run in storage.load_decompositions(path)]
    (best,) = restarts.best(results, 1)

    def add(folder):
        own_data.add_to(folder, settings, readers.read_tables(**snakemake.params.files), sources, best)

    outputs.write(snakemake.output[0], sources, results, notes=settings["notes"], add=add)


run_script(main, snakemake)
