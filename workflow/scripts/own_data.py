"""Read one's own files as sources that are ready for a fit, and keep the settings of the fit beside them."""

import json
from pathlib import Path

from bjmd.files import own_data, readers
from bjmd.fits import storage
from bjmd.paper.frame import run_script


def main(snakemake):
    tables = readers.read_tables(**snakemake.params.files)
    sources, settings = own_data.prepare(tables, **snakemake.params.preparation)
    storage.save_sources(snakemake.output.data, sources)
    Path(snakemake.output.settings).write_text(json.dumps(settings), encoding="utf-8")


run_script(main, snakemake)
