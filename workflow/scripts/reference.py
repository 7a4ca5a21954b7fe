"""Copy the tables and pictures of this run to where a reference run is kept."""

import shutil
from pathlib import Path

from bjmd_paper.frame import run_script


def main(snakemake):
    folder = Path(snakemake.output[0])
    for path in map(Path, snakemake.input):
        target = folder.joinpath(*path.parts[path.parts.index("results") + 1 :])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


run_script(main, snakemake)
