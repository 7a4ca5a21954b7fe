"""The pages in docs/: the tutorial prints what it says, nothing is left out, links lead on."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import bjmd
from bjmd.report.pages import FIGURES

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = DOCS.parent / "README.md"
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def script(name):
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same_text(printed, shown):
    """Equal words, wherever lines break, and numbers equal up to one unit of the last digit."""
    if words(printed) != words(shown):
        return False
    return all(
        abs(float(actual) - float(expected)) < 1.01 * unit_of_last_digit(expected)
        for actual, expected in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    )


def words(text):
    return NUMBER.sub("#", text).replace("[", "[ ").split()  # numpy pads with spaces


def unit_of_last_digit(number):
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def test_the_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    tutorial = script("run_tutorial")
    outputs = tutorial.run(tutorial.PAGE.read_text(encoding="utf-8"), tmp_path)
    assert len(outputs) > 10
    for block, printed in outputs:
        shown = block[3] or ""
        assert same_text(printed, shown), (
            f"{block[2]}\nprints\n{printed}\nbut the page says\n{shown}"
        )


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("sd 0.213 of Oslo", "sd 0.212\nof Oslo", True),
        ("sd 0.214 of Oslo", "sd 0.212 of Oslo", False),
        ("[ 9. 10.]", "[9. 9.]", True),
        ("[ 9. 11.]", "[9. 9.]", False),
        ("1.02e-05", "1.03e-05", True),
        ("1.02e-05", "1.02e-04", False),
        ("True", "False", False),
        ("sd 1 2", "sd 1", False),
    ],
)
def test_outputs_are_compared_up_to_the_last_digit(printed, shown, same):
    assert same_text(printed, shown) == same


def test_the_site_has_every_page():
    """Sphinx would say so as well, but the tests do not install it."""
    listed = [page for pages in script("conf").CONTENTS.values() for page in pages]
    assert len(listed) == len(set(listed))
    assert {page.relative_to(DOCS.parent).with_suffix("").as_posix() for page in PAGES} <= set(
        listed
    )
    assert not [page for page in listed if not (DOCS.parent / f"{page}.md").is_file()]


def test_the_page_about_the_interface_names_all_that_is_public_and_nothing_that_is_not_there():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"\.\. auto(?:class|function|module):: bjmd\.(\w+)\n", page)
    assert sorted(documented) == sorted([*bjmd.__all__, "errors"])
    for name, members in re.findall(r"\.\. autoclass:: bjmd\.(\w+)\n +:members:(.*)", page):
        for member in filter(None, members.replace(",", " ").split()):
            assert getattr(getattr(bjmd, name), member).__doc__, member
    for module in re.findall(r"\.\. automodule:: (\S+)", page):
        importlib.import_module(module)


def test_the_gallery_has_every_figure():
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    mine, papers = page.split("\n## The paper\n")
    assert {*FIGURES, "selection"} <= set(re.findall(r"`(\S+?)`", mine))
    exhibits = tomllib.loads(
        (DOCS.parent / "src/bjmd_paper/exhibits.toml").read_text(encoding="utf-8")
    )["exhibit"]
    drawn = {entry["name"].partition("-{")[0] for entry in exhibits if entry["kind"] == "figure"}
    shown = re.findall(r"^\| `\w+` \| \[?`([\w-]+)`", papers, re.MULTILINE)
    families = "-(small|mixology|metabric-489)$"
    assert drawn == {re.sub(families, "", name) for name in shown}


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [
                re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings
            ], (target, anchor)


def test_docstrings_cite_pages_and_sections_that_exist():
    """`docs/derivation.md, 3.4` cites a section, `docs/derivation.md, 4.4 and 4.5` two of them."""
    headings = re.findall(
        r"^#+ (\d+(?:\.\d+)?)\b", (DOCS / "derivation.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    cited = []
    for folder in ("src", "tests", "benchmarks", "workflow"):
        for path in sorted((DOCS.parent / folder).rglob("*.py")):
            text = " ".join(path.read_text(encoding="utf-8").split())
            for page in re.findall(r"docs/[\w-]+\.md", text):
                assert (DOCS.parent / page).is_file(), f"{path} cites {page}"
            for sections in re.findall(
                r"docs/derivation\.md, (\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)", text
            ):
                cited += [(path, section) for section in re.split(", | and ", sections)]
    assert len(cited) > 10
    assert not [(path, section) for path, section in cited if section not in headings]
