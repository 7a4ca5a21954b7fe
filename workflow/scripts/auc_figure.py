"""AUC of every fit against the noise of source 3, as a figure and as a table."""

from pathlib import Path

import pandas as pd

from bjmd.paper import figures, scores
from bjmd.paper.frame import run_script
from bjmd.report.style import save


def main(snakemake):
    sweep = pd.concat(
        [
            scores.summary(pd.read_csv(path)).assign(sigma3=float(Path(path).stem.rsplit("-", 1)[1]))
            for path in snakemake.input.scores
        ]
    )
    sweep.to_csv(snakemake.output.csv, index=False)
    save(figures.auc(sweep, snakemake.params.fits), snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
