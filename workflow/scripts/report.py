"""The report: every table and figure of the run on one page, with the captions of workflow/report."""

import re
from pathlib import Path
from types import SimpleNamespace

from jinja2 import Template

from bjmd.paper.frame import run_script
from bjmd.report import pages


def main(snakemake):
    captions = {Path(path).stem: Path(path).read_text() for path in snakemake.input.captions}

    def caption(name, wildcards=None):
        """A caption as Snakemake's own report would show it."""
        about = SimpleNamespace(
            wildcards=SimpleNamespace(**(wildcards or {})),
            config=snakemake.config,
            params=SimpleNamespace(rule=snakemake.config["selection"]["rule"]),
        )
        return Template(captions[name]).render(snakemake=about).strip()

    def exhibit(path, name, wildcards):
        text = " ".join(caption(name, wildcards).split())
        label = text.split(". ")[0].split(":")[0]
        if path.endswith(".png"):
            return pages.picture(Path(path).read_bytes(), label, text)
        table = re.search("<body>(.*)</body>", Path(path).read_text(), re.DOTALL)[1]
        return pages.paragraph(text) + pages.scrolling(label, table)

    introduction = [pages.paragraph(" ".join(part.split())) for part in caption("workflow").split("\n\n")]
    if snakemake.params.left_out:
        introduction.append(
            pages.paragraph(
                f"Left out, because the files could not be had: {', '.join(snakemake.params.left_out)}. "
                "docs/data.md says what to fetch by hand and where to put it."
            )
        )
    sections = []
    for title, exhibits in snakemake.params.sections.items():
        sections.append(pages.section(title, [*introduction, *(exhibit(*each) for each in exhibits)]))
        introduction = []
    Path(snakemake.output[0]).write_text(pages.page("The BJMD paper, run again", sections))


run_script(main, snakemake)
