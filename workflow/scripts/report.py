"""The report: every table and figure of the run on one page, with its caption."""

from pathlib import Path

from bjmd_paper import exhibits, failures
from bjmd_paper.frame import script

with script(snakemake):
    parts = zip(snakemake.params.exhibits, snakemake.input.parts, strict=True)
    page = exhibits.report(
        Path(snakemake.input.introduction).read_text(),
        [(*about, path) for about, path in parts],
        snakemake.params.left_out,
        failures.sentences(snakemake.input.made_of),
    )
    Path(snakemake.output[0]).write_text(page)
