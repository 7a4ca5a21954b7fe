"""Copy the tables and pictures of this run to where a reference run is kept."""

import shutil
from pathlib import Path

from bjmd_paper.frame import script

with script(snakemake):
    for path in map(Path, snakemake.input):
        target = Path(snakemake.output[0], *path.parts[path.parts.index("results") + 1 :])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
