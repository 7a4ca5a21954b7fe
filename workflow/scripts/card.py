"""The card of a real data set and a picture of it."""

from pathlib import Path

from bjmd.fits import storage
from bjmd.paper import tables
from bjmd.paper.datasets import cards, pictures
from bjmd.paper.frame import run_script
from bjmd.report.style import save


def main(snakemake):
    name, output = snakemake.wildcards.real, snakemake.output
    sources = storage.load_sources(snakemake.input[0])
    Path(output.markdown).write_text(cards.markdown(name, sources))
    comparison = cards.comparison(name, sources).rename_axis("").reset_index()
    counts = cards.class_counts(sources).rename_axis("class").reset_index()
    Path(output.html).write_text(tables.html_page(comparison, counts))
    save(pictures.picture(name, sources), output.svg, output.png)


run_script(main, snakemake)
