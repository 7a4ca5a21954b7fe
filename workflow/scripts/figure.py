"""Draw a figure of the list of exhibits."""

import textwrap

from matplotlib.figure import Figure

from bjmd.errors import FitError
from bjmd.report.figures import save
from bjmd_paper import exhibits, figures
from bjmd_paper.frame import script
from bjmd_paper.graphical_models import graphical_models

FIGURES = {
    "auc": figures.auc,
    "shares": figures.shares,
    "noise-by-amount": figures.noise_by_amount,
    "noise": figures.noise,
    "feature-test": figures.features,
    "objective": figures.objective,
    "advi-traces": figures.advi_traces,
    "graphical-models": graphical_models,
}

with script(snakemake):
    params = snakemake.params
    try:
        inputs = dict(snakemake.input.items())
        figure = exhibits.make(FIGURES[params.function], inputs, params.settings)
    except FitError as error:
        figure = Figure(figsize=(8, 2))
        figure.text(0.05, 0.5, textwrap.fill(f"There is {error}.", 100), va="center")
    save(figure, snakemake.output.svg, snakemake.output.png)
