"""Read the user's own files as sources that are ready for a fit, and keep the settings of the fit
beside them.
"""

import json
from dataclasses import asdict
from pathlib import Path

from bjmd.files import readers, tables
from bjmd.results import storage
from bjmd_paper.frame import run_script


def main(snakemake):
    own = snakemake.params.own
    read = readers.read_tables(**own["reading"])
    reading = {name: value for name, value in own["reading"].items() if name != "paths"}
    sources, settings = tables.prepare(read, **own["preparation"], reading=reading)
    storage.save_sources(snakemake.output.data, sources)
    Path(snakemake.output.settings).write_text(json.dumps(asdict(settings)), encoding="utf-8")


run_script(main, snakemake)
