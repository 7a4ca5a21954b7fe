"""The report of a fit in a real browser, on a desk and on a phone, and what its scripts do.

Skipped where there is no Chromium.
"""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from bjmd.analysis.check import check
from bjmd.analysis.fitting import summarise
from bjmd.data.sources import Sources
from bjmd.files import outputs
from bjmd.inference import restarts
from bjmd.report import pages

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
WIDTHS = (1200, 400)
LOOK = """<!DOCTYPE html><title>look</title><body><script>
const widths = WIDTHS, found = {};
const called = e =>
  `${e.tagName} ${e.alt || e.getAttribute("aria-label") || e.textContent}`.trim().slice(0, 60);
async function look(width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.src = "report.html";
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument, images = [...page.images];
  const elements = [...page.body.querySelectorAll("*")];
  await new Promise(done => setTimeout(done, 500));
  const cut = elements.filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1
    && getComputedStyle(e).overflowX !== "visible");
  const width_of_page = page.documentElement.clientWidth;
  const outside = elements.filter(e => e.getBoundingClientRect().right > width_of_page + 1);
  found[width] = {
    images: images.length, broken: images.filter(i => !i.naturalWidth).map(called),
    cut: cut.map(called), outside: outside.map(called),
    sideways: page.documentElement.scrollWidth - page.documentElement.clientWidth,
  };
}
(async () => {
  for (const width of widths) await look(width);
  const written = document.createElement("pre");
  written.id = "found";
  written.textContent = JSON.stringify(found);
  document.body.append(written);
})();
</script>"""


def browse(page, *flags):
    """What a script leaves in the element `found` of a page, and all that Chromium writes to the
    console.
    """
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    options += [f"--user-data-dir={page.parent / 'browser'}", *flags]
    line = [CHROMIUM, *options, "--dump-dom", page.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    written = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert written, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(written[1])), console


def answer(page, script, folder, *flags):
    """What a script returns that runs when a page is drawn; nothing may go to the console."""
    probe = (
        "setTimeout(async () => { const found = document.createElement('pre'); found.id = 'found';"
        f"found.textContent = JSON.stringify(await (async () => {{ {script} }})());"
        "document.body.append(found); }, 1000);"
    )
    file = folder / "page.html"
    body, _, end = page.rpartition("</body>")
    file.write_text(f"{body}<script>{probe}</script></body>{end}", encoding="utf-8")
    result, console = browse(file, "--window-size=1200,900", "--virtual-time-budget=5000", *flags)
    assert console == []
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fit of three sources and its check, with long names and some classes."""
    rng = np.random.default_rng(1)
    components = 3 * rng.laplace(size=(40, 3))
    memberships = [rng.dirichlet(np.ones(3), n).T for n in (40, 30, 30)]
    sd = np.exp(0.7 * rng.standard_normal(40))[:, None]  # by feature, which the fit does not know
    matrices = [
        components @ h + 0.4 * sd * rng.standard_normal((40, h.shape[1])) for h in memberships
    ]
    for x in matrices:
        x[rng.integers(40, size=4), rng.integers(30, size=4)] += 60
    names = ["Oslo", "a cohort with a long name, measured twice", "C"]
    sources = Sources(
        matrices,
        names=names,
        labels=[h > 0.4 for h in memberships],
        feature_names=[f"ENSG00000{i:06}.{i % 7}_feature" for i in range(40)],
    )
    results = restarts.run("cavi-bjmd", sources, 3, n_restarts=2, tol=1e-4)
    path = tmp_path_factory.mktemp("browser") / "out"
    outputs.write(path, sources, summarise(sources, results))
    outputs.add_check(path, check(sources, restarts.best(results, 1)[0]).table)
    return path


def test_the_report_holds_on_a_desk_and_on_a_phone(folder):
    pictures = (folder / "report.html").read_text().count("<img alt=")
    assert pictures == 8
    page = folder / "look.html"
    page.write_text(LOOK.replace("WIDTHS", json.dumps(WIDTHS)))
    flags = ("--virtual-time-budget=20000", "--allow-file-access-from-files")
    measured, console = browse(page, *flags)
    assert console == []
    for width in map(str, WIDTHS):
        assert (measured[width]["images"], measured[width]["broken"]) == (pictures, [])
        assert measured[width]["sideways"] == 0
    assert (measured["1200"]["cut"], measured["1200"]["outside"]) == ([], [])
    # on a phone wide tables scroll in their own boxes
    wide = ("Residuals", "Check of the noise model", "Associations", "Components by source")
    assert set(measured["400"]["cut"]) <= {f"DIV {name}" for name in wide}


def test_tables_sort_by_number_or_name_and_filter_and_the_theme_follows_the_switch(tmp_path):
    values = ["1,200", "94.2 ± 0.3", "–", "-3", "7 %", "", "2e3", "+0.5", ".25"]
    cells = pd.DataFrame({"name": [f"x{i}" for i in range(10, 1, -1)], "value": values})
    result = answer(
        pages.page("title", [pages.table("label", cells)]),
        """
        const rows = () => [...document.querySelectorAll("tbody tr:not([hidden])")];
        const text = (row, column) => row.cells[column].textContent.replace("\\u00a0", " ");
        const read = (column) => rows().map((row) => text(row, column));
        const [name, value] = document.querySelectorAll("th button");
        const result = {};
        value.click(); result.up = read(1);
        value.click(); result.down = read(1);
        value.click(); result.back = read(1);
        name.click(); result.names = read(0);
        const filter = document.querySelector(".filter input");
        filter.value = "X1 %"; filter.dispatchEvent(new Event("input")); result.none = read(0);
        filter.value = "X1"; filter.dispatchEvent(new Event("input")); result.some = read(0);
        result.told = document.querySelector(".filter span").textContent;
        const colour = () => getComputedStyle(document.body).backgroundColor;
        result.before = colour(); document.querySelector(".theme").click(); result.after = colour();
        return result;
        """,
        tmp_path,
        "--blink-settings=preferredColorScheme=0",
    )
    up = ["-3", ".25", "+0.5", "7 %", "94.2 ± 0.3", "1,200", "2e3"]
    assert result["up"] == [*up, "–", ""], "cells without a value come last"
    assert result["down"] == [*up[::-1], "–", ""]
    assert result["back"] == values
    assert result["names"] == [f"x{i}" for i in range(2, 11)]
    assert result["none"] == [] and result["some"] == ["x10"] and result["told"] == "1 of 9 rows"
    assert result["before"] == "rgb(21, 24, 28)" and result["after"] == "rgb(255, 255, 255)"
