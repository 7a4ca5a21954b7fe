"""The report of a fit in a real browser, on a desk and on a phone.  Skipped where there is no Chromium."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.files import outputs
from bjmd.fits import restarts

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (1200, 400)
LOOK = """<!DOCTYPE html><title>look</title><body><script>
const widths = WIDTHS, found = {};
const called = e => `${e.tagName} ${e.alt || e.getAttribute("aria-label") || e.textContent}`.trim().slice(0, 60);
async function look(width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.src = "report.html";
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument, elements = [...page.body.querySelectorAll("*")], images = [...page.images];
  await new Promise(done => setTimeout(done, 500));
  const cut = elements.filter(e => e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1
    && getComputedStyle(e).overflowX !== "visible");
  const outside = elements.filter(e => e.getBoundingClientRect().right > page.documentElement.clientWidth + 1);
  found[width] = {
    images: images.length, broken: images.filter(i => !i.naturalWidth).map(called), cut: cut.map(called),
    outside: outside.map(called), charts: page.querySelectorAll(".chart.drawn svg").length,
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


def look_at(folder):
    """What Chromium finds on report.html in frames of both widths, and all that it writes to the console."""
    page = folder / "look.html"
    page.write_text(LOOK.replace("WIDTHS", json.dumps(WIDTHS)))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    options += [f"--user-data-dir={folder / 'browser'}", "--enable-logging=stderr", "--virtual-time-budget=20000"]
    line = [CHROMIUM, *options, "--dump-dom", page.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fit of three sources whose check raises alarms, with long names and some classes."""
    rng = np.random.default_rng(1)
    components = 3 * rng.laplace(size=(40, 3))
    memberships = [rng.dirichlet(np.ones(3), n).T for n in (40, 30, 30)]
    sd = np.exp(0.7 * rng.standard_normal(40))[:, None]  # by feature, which the fit does not know
    matrices = [components @ h + 0.4 * sd * rng.standard_normal((40, h.shape[1])) for h in memberships]
    for x in matrices:
        x[rng.integers(40, size=4), rng.integers(30, size=4)] += 60
    names = ["Oslo", "a cohort with a long name, measured twice", "C"]
    sources = Sources(
        matrices, names=names, labels=[h > 0.4 for h in memberships],
        feature_names=[f"ENSG00000{i:06}.{i % 7}_feature" for i in range(40)],
    )  # fmt: skip
    results = restarts.run("cavi-bjmd", sources, 3, n_restarts=2, tol=1e-4)
    path = tmp_path_factory.mktemp("browser") / "out"
    outputs.write(path, sources, results)
    return path


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_report_holds_on_a_desk_and_on_a_phone(folder):
    alarms = sum(finding.alarm for finding in outputs.load(folder).findings)
    pictures = (folder / "report.html").read_text().count("<img ")
    assert alarms >= 2 and pictures > alarms + 5
    found, console = look_at(folder)
    assert console == []
    for width in map(str, WIDTHS):
        assert (found[width]["images"], found[width]["broken"]) == (pictures, [])
        assert found[width]["charts"] >= 1
        assert (found[width]["cut"], found[width]["outside"], found[width]["sideways"]) == ([], [], 0), width


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_broken_page_is_noticed(tmp_path):
    """The test above can fail: in each of its ways, on a page that has them all."""
    wide = "<p style='width: 900px'>wide</p>"
    box, script = f"<div style='overflow: auto'>{wide}</div>", "<script>nothing()</script>"
    page = f"<!DOCTYPE html><img src='data:image/png;base64,AAAA'>{wide}{box}{script}"
    (tmp_path / "report.html").write_text(page)
    found, console = look_at(tmp_path)
    assert any("nothing is not defined" in line for line in console)
    assert found["1200"]["broken"] and not found["1200"]["cut"] and found["1200"]["sideways"] == 0
    assert found["400"]["cut"] and found["400"]["outside"] and found["400"]["sideways"] > 0
