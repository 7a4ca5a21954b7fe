"""What this run was made with, and how long its fits took."""

from pathlib import Path

import pandas as pd

from bjmd.paper import provenance, tables
from bjmd.paper.frame import run_script
from bjmd.report.tables import markdown


def main(snakemake):
    params = snakemake.params
    seconds = [
        ((params.families[path.parent.parent.name], path.parent.name), pd.read_csv(path, sep="\t")["cpu_time"].iloc[0])
        for path in map(Path, params.benchmarks)
        if path.exists()
    ]
    times = provenance.times(seconds).round(2).astype(object).fillna("–").astype(str)
    times.columns = [f"{name} (min)" if name != "fit" else name for name in times.columns]
    settings = pd.DataFrame(
        [*params.settings.items(), *provenance.versions().items()], columns=["what", "value"]
    ).astype(str)
    fits = pd.DataFrame(params.fits).astype(str)
    text = "Versions and settings:\n\n" + markdown(settings)
    text += "\nThe fits:\n\n" + markdown(fits)
    text += "\nProcessor time of all restarts of each fit, in minutes, the start of Python included:\n\n" + markdown(
        times
    )
    Path(snakemake.output.markdown).write_text(text)
    Path(snakemake.output.html).write_text(tables.html_page(settings, fits, times))


run_script(main, snakemake)
