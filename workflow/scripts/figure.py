"""Draw a figure of the list of exhibits."""

import textwrap

from matplotlib.figure import Figure

from bjmd.errors import FitError
from bjmd.report.figures import save
from bjmd_paper import exhibits
from bjmd_paper.frame import script

with script(snakemake):
    params = snakemake.params
    try:
        inputs = dict(snakemake.input.items())
        figure = exhibits.make(params.function, inputs, params.settings)
    except FitError as error:
        figure = Figure(figsize=(8, 2))
        figure.text(0.05, 0.5, textwrap.fill(f"There is {error}.", 100), va="center")
    save(figure, snakemake.output.svg, snakemake.output.png)
