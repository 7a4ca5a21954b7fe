#!/usr/bin/env bash
# Snakemake runs this inside the new conda environment, from the folder of the Snakefile.
set -euo pipefail
python -m pip install --no-deps --no-build-isolation --editable .
