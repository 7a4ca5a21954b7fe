"""How Sphinx builds the site: `make docs`.

The repository is the source folder, so the links of the Markdown pages are the same on GitHub and
on the site.  On the pages that NOTEBOOKS names, the ```python blocks and the `bjmd` commands of the
```sh blocks are run, and their real output replaces the one in the page.
"""

import os
import re
import sys
from pathlib import Path

import bjmd

CONTENTS = {
    "First steps": ["docs/tutorial"],
    "How to": [
        "docs/how-to/batches",
        "docs/how-to/single-cells",
        "docs/how-to/components",
        "docs/how-to/new-method",
        "docs/large",
    ],
    "Using it": ["docs/options", "docs/trust", "docs/comparison"],
    "Reference": [
        "docs/command",
        "docs/api",
        "docs/methods",
        "docs/gallery",
        "docs/model",
        "docs/derivation",
    ],
    "The paper": ["docs/results", "docs/data", "docs/cluster", "docs/deploy", "config/README"],
    "Project": ["CONTRIBUTING", "CHANGELOG"],
}
NOTEBOOKS = ("docs/tutorial", "docs/gallery", "docs/how-to/")
TABLES = "results/reference/tables/"

project = "bjmd"
author = copyright = "The bjmd developers"
version = release = bjmd.__version__

root_doc = "README"
include_patterns = ["*.md", "config/README.md", "docs/**.md", f"{TABLES}*.md"]
exclude_patterns = [".*", "build"]
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
highlight_language = "text"  # formulas are indented blocks

# all pages in one sidebar, so no index pages are needed
html_theme = "sphinx_book_theme"
html_title = f"bjmd {version}"
html_copy_source = False
html_theme_options = {
    "navbar_persistent": [],  # or there would be a second search field
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 4  # GitHub's

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
# the `bjmd` of this Python, as wide as a page
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ |= {"COLUMNS": "78", "TQDM_DISABLE": "1"}

autodoc_typehints = "none"  # types stand in the docstrings
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

NOTEBOOK = """\
---
kernelspec: {name: python3, display_name: Python 3}
jupytext: {text_representation: {format_name: myst}}
---
"""
# commands without a terminal, or their progress bars would stay on the page; one that fails stops
# the build
FIRST_CELL = """
```{code-cell} ipython3
:tags: [remove-cell]

%matplotlib inline
import warnings
from subprocess import DEVNULL, check_output
warnings.filterwarnings("ignore", "IProgress not found")
def run(line):
    print(check_output(line, shell=True, text=True, stderr=DEVNULL), end="")
get_ipython().system = run
```
"""
BLOCK = re.compile(
    r"```(python|sh)\n(.*?)```\n(?:\n```text\n.*?```\n)?(?:\n!\[[^\]]*\]\(images/\S+\)\n)?",
    re.DOTALL,
)


def setup(app):
    app.connect("source-read", prepare)
    app.connect("build-finished", open_at_the_first_page)


def prepare(app, page, source):
    """Add what a page needs on the site but not on GitHub."""
    if page == root_doc:
        source[0] += "".join(_contents(caption, pages) for caption, pages in CONTENTS.items())
    elif page.startswith(NOTEBOOKS):
        title, text = source[0].split("\n", 1)
        source[0] = f"{NOTEBOOK}{title}\n{FIRST_CELL}{BLOCK.sub(_cell, text)}"
    elif page.startswith(TABLES):
        title = page.removeprefix(TABLES).replace("-", " ").capitalize()
        source[0] = f"---\norphan: true\n---\n# {title}\n\n{source[0]}"


def _contents(caption, pages):
    lines = "\n".join(pages)
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```\n"


def _cell(block):
    """A cell that replaces a block, and the output and picture below it that GitHub shows."""
    kind = block[1]
    code = block[2]
    if kind == "sh" and not code.startswith("bjmd "):
        return block[0]  # the workflow has tests of its own
    if kind == "sh":  # shown as in a shell, without the notebook's exclamation mark
        shown = f"```sh\n{code}```\n\n"
        return f"{shown}```{{code-cell}} ipython3\n:tags: [remove-input]\n\n!{code}```\n"
    return f"```{{code-cell}} ipython3\n{code}```\n"


def open_at_the_first_page(app, failure):
    if failure is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(
            f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        )
