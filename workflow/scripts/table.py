"""Make a table of the list of exhibits, in all its formats."""

import pandas as pd

from bjmd.errors import FitError
from bjmd_paper import exhibits, failures, tables
from bjmd_paper.frame import script

with script(snakemake):
    params = snakemake.params
    inputs = dict(snakemake.input.items())
    failed = failures.sentences(inputs.pop("failures", []))
    try:
        table = exhibits.make(params.function, inputs, params.settings, params.optional)
    except FitError as error:
        table = tables.Table(pd.DataFrame(), [f"There is {error}."])
    if failed:
        table.shown.append(f"Failed, and left out: {'; '.join(failed)}.")
    tables.write(table, params.title, params.caption, snakemake.output)
