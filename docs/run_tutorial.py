"""Run the tutorial, and write its real output into the page.

    python docs/run_tutorial.py

Its ```python blocks, and the `bjmd` commands of its ```sh blocks, run in order in a temporary
folder and one namespace.  A ```text block after a block becomes what that block printed; saved
pictures that the page shows go to docs/images/.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from bjmd import cli

HERE = Path(__file__).parent
PAGE = HERE / "tutorial.md"
BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def run(page, folder):
    """[(the block's match, what it printed)]; the current folder is `folder` meanwhile."""
    names = {"__name__": "tutorial"}
    outputs = []
    with contextlib.chdir(folder):
        for block in BLOCK.finditer(page):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if block[1] == "python":
                    exec(compile(block[2], str(PAGE), "exec"), names)
                else:
                    _shell(block[2])
            outputs.append((block, printed.getvalue()))
    return outputs


def _shell(commands):
    """Run the lines that are `bjmd` commands; the workflow has tests of its own."""
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["bjmd"] and cli.main(words[1:]) != 0:
            raise RuntimeError(f"failed: {line}")


def renew():
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in reversed(run(page, folder)):
            if block[3] is not None:
                lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
                page = page[: block.start(3)] + lines + page[block.end(3) :]
        for picture in re.findall(r"\]\(images/(\S+\.png)\)", page):
            shutil.copy(Path(folder) / picture, HERE / "images" / picture)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"  # whatever the width of this terminal
    renew()
