"""Find the files of a real data set in the mirror, the cache or the network, check them, and read
them as sources.
"""

from bjmd.results import storage
from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.frame import script

with script(snakemake):
    name = snakemake.wildcards.real
    folder, files = fetch.files(name, **dict(snakemake.params.where))
    storage.save_sources(snakemake.output.data, catalogue.get(name).read(folder))
    files.to_csv(snakemake.output.files, index=False)
