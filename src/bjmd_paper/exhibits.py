"""The tables and figures of a run: the list in exhibits.toml, applied to one config."""

import importlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from bjmd.inference import registry
from bjmd.report import pages
from bjmd_paper.datasets import catalogue

EACH = {
    "families": lambda plan: plan.families(),
    "scales": lambda plan: plan.scales,
    "drawn": lambda plan: [scale for scale in plan.scales if plan.draw_chunks(scale)],
    "real": lambda plan: plan.real,
    "filtered": lambda plan: plan.filtered(),
    "pictured": lambda plan: [real for real in plan.real if catalogue.get(real).draw],
    "mixtures": lambda plan: plan.mixtures(),
    "with ADVI": lambda plan: [family for family in plan.families() if _advi(plan, family)],
    "real data": lambda plan: [None] if plan.real else [],
    "ADVI draws": lambda plan: [None] if plan.advi_draw_chunks() else [],
    "feature draws": lambda plan: [None] if plan.feature_draw_chunks() else [],
}
"""The families that have an exhibit of their own, or [None] for one about the whole run."""


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure of one run."""

    name: str
    kind: str
    """Either "table" or "figure"."""
    section: str
    title: str
    caption: str
    function: str
    inputs: dict
    """Argument -> file, or list of files."""
    settings: dict
    """Argument -> value."""
    reference: bool

    def file(self, ending):
        return f"results/{self.kind}s/{self.name}.{ending}"

    def files(self):
        tables = ("csv", "md", "tex", "html", "fragment.html")
        return [
            self.file(ending) for ending in (tables if self.kind == "table" else ("svg", "png"))
        ]

    def part(self):
        """The file that the report includes."""
        return self.file("fragment.html" if self.kind == "table" else "png")

    def reference_files(self):
        """The files that the reference run keeps; for a figure also the table behind it."""
        if not self.reference:
            return []
        kept = [self.file(ending) for ending in ("csv", "md", "png")]
        behind = [path for path in self.inputs.values() if str(path).startswith("results/tables/")]
        return [*(path for path in kept if path in self.files()), *behind]


def of(plan):
    """The exhibits of one run in the order of the report: by section, and then by family."""
    path = Path(__file__).with_suffix(".toml")
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["exhibit"]
    sections = list(dict.fromkeys(entry["section"] for entry in listed))
    order = [None, *plan.families()]
    both = [
        (entry, family)
        for entry in listed
        for family in (EACH[entry["each"]](plan) if "each" in entry else [None])
    ]
    both.sort(key=lambda pair: (sections.index(pair[0]["section"]), order.index(pair[1])))
    return [_exhibit(entry, _values(plan, family)) for entry, family in both]


def _exhibit(entry, values):
    return Exhibit(
        name=entry["name"].format(**values),
        kind=entry["kind"],
        section=entry["section"],
        title=entry["title"].format(**values),
        caption=" ".join(entry["caption"].format(**values).split()),
        function=entry["function"],
        inputs={
            argument: _files(path, values) for argument, path in entry.get("inputs", {}).items()
        },
        settings={name: values[name] for name in entry.get("settings", ())},
        reference=entry.get("reference", True),
    )


def _values(plan, family):
    """What an entry of the list may mention, for one family or for the whole run (None)."""
    config = plan.config
    scales = [scale for scale in plan.scales if family in (None, scale)]
    values = {
        "family": family,
        "families": plan.families(),
        "real_families": [name for name in plan.families() if name not in plan.scales],
        "datasets": {dataset: plan.family(dataset) for dataset in plan.datasets()},
        "shown": [plan.shown(name) for name in plan.families()],
        "draws": [f"{scale}/{chunk}" for scale in scales for chunk in plan.draw_chunks(scale)],
        "advi_draws": plan.advi_draw_chunks(),
        "feature_draws": plan.feature_draw_chunks(),
        "fits": plan.fits,
        "fits_table": plan.fits_table(),
        "rows": plan.rows(),
        "seed": config["seed"],
        "table_sigma3": plan.table_sigma3,
        **config["feature_test"],
    }
    if family is not None:
        values |= {
            "shown": plan.shown(family),
            "data": catalogue.family(family).title,
            "drawn": "",
            "advi": _advi(plan, family),
            "n_components": plan.n_components(plan.shown(family)),
        }
    if family in plan.scales:
        values["drawn"] = (
            f" (noise sd {plan.table_sigma3:g} in source 3). This is one draw, as in the paper, "
            "whose own draw is not known; the table of many draws shows how much draws differ"
        )
    return values


def _advi(plan, family):
    """The restarts of the first fit by ADVI with a noise level per source, as files of results/."""
    dataset = plan.shown(family)
    for fit in plan.fits_on(dataset):
        method = registry.get(plan.fits[fit]["method"])
        if method.name == "advi-bjmd":
            return [path.removeprefix("results/") for path in plan.chunks(dataset, fit)]
    return []


def _files(path, values):
    """The file that a path means, or the files if it mentions a list."""
    (name,) = re.findall(r"\{(\w+)\}", path)
    if isinstance(values[name], str):
        return f"results/{path.format(**values)}"
    return [f"results/{path.format(**{name: one})}" for one in values[name]]


def make(function, inputs, settings):
    """Call a function of bjmd_paper with its inputs, {argument: file or files}, and settings."""
    module, _, name = function.rpartition(".")
    called = getattr(importlib.import_module(f"bjmd_paper.{module}"), name)
    return called(**{argument: _read(path) for argument, path in inputs.items()}, **settings)


def _read(path):
    import pandas as pd

    from bjmd.results import storage

    if not isinstance(path, str):
        return [_read(one) for one in path]
    if path.endswith(".csv"):
        return pd.read_csv(path)
    if Path(path).parts[1] == "data":
        return storage.load_sources(path)
    return storage.load_decompositions(path)


def report(introduction, parts, left_out):
    """The page with all exhibits, given as (section, title, caption, file) from top to bottom."""
    paragraphs = introduction.strip().split("\n\n")
    if left_out:
        paragraphs.append(
            f"Left out because their files were not found: {', '.join(left_out)}. "
            "docs/data.md says what to download by hand and where to put it."
        )
    opening = [pages.paragraph(" ".join(text.split())) for text in paragraphs]
    sections: dict[str, list[str]] = {}
    for section, title, caption, path in parts:
        if path.endswith(".png"):
            shown = pages.picture(Path(path).read_bytes(), title, caption)
        else:
            shown = pages.paragraph(caption) + Path(path).read_text()
        sections.setdefault(section, []).append(pages.heading(title) + shown)
    return pages.page(
        "The BJMD paper, run again",
        [*opening, *(pages.section(title, shown) for title, shown in sections.items())],
    )
