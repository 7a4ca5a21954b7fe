"""Make a table of the list of exhibits, in all its formats."""

import pandas as pd

from bjmd.errors import FitError
from bjmd_paper import exhibits, failures
from bjmd_paper.frame import script
from bjmd_paper.table_files import Table, write

with script(snakemake):
    params = snakemake.params
    inputs = dict(snakemake.input.items())
    try:
        table = exhibits.make(params.function, inputs, params.settings, params.optional)
    except FitError as error:
        table = Table(pd.DataFrame(), [f"There is {error}."])
    if failed := failures.sentences(snakemake.input):
        table.shown.append(f"Failed, and left out: {'; '.join(failed)}.")
    write(table, params.title, params.caption, snakemake.output)
