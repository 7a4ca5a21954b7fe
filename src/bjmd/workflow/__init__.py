"""What the Snakemake workflow needs beyond the package: the config checked, resources, scripts, provenance."""
