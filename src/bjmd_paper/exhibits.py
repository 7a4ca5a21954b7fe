"""The tables and figures of a run: the list in exhibits.toml, applied to one config."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from bjmd.errors import FitError
from bjmd.report import pages
from bjmd_paper import failures
from bjmd_paper.datasets import catalogue

EACH = {
    "run": lambda plan: [None],
    "families": lambda plan: plan.families(),
    "scales": lambda plan: plan.scales,
    "drawn": lambda plan: [scale for scale in plan.scales if plan.draw_chunks(scale)],
    "real": lambda plan: plan.real,
    "filtered": lambda plan: plan.filtered(),
    "mixtures": lambda plan: [real for real in plan.real if catalogue.get(real).shares],
    "real data": lambda plan: [None] if plan.real else [],
    "conjecture": lambda plan: [None] if plan.draw_chunks("conjecture") else [],
    "ADVI draws": lambda plan: [None] if plan.draw_chunks("advi_traces") else [],
    "feature draws": lambda plan: [None] if plan.draw_chunks("feature_draws") else [],
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
    """Where its function is, as "module:name"."""
    inputs: dict
    """Argument -> file, or list of files."""
    settings: dict
    """Argument -> value."""
    optional: list
    """Arguments that may be empty lists, because the exhibit shows what there is."""

    def files(self):
        """What is written; the last is what the report includes."""
        endings = {"table": ("csv", "md", "html", "fragment.html"), "figure": ("svg", "png")}
        return [f"results/{self.kind}s/{self.name}.{ending}" for ending in endings[self.kind]]

    def made_of(self):
        """All files that it is made of."""
        return [path for files in self.inputs.values() for path in _listed(files)]

    def reference_files(self):
        """The files that the reference run keeps; for a figure also the table behind it."""
        kept = [path for path in self.files() if path.endswith((".csv", ".md", ".png"))]
        return kept + [
            path for path in self.inputs.values() if str(path).startswith("results/tables/")
        ]


def of(plan):
    """The exhibits of one run in the order of the report: by section, and then by family."""
    path = Path(__file__).with_suffix(".toml")
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["exhibit"]
    sections = dict.fromkeys(entry["section"] for entry in listed)
    families = [None, *plan.families()]
    values = {family: _values(plan, family) for family in families}
    shown_for = [EACH[entry.get("each", "run")](plan) for entry in listed]
    return [
        _exhibit(entry, values[family])
        for section in sections
        for family in families
        for entry, shown in zip(listed, shown_for, strict=True)
        if entry["section"] == section and family in shown
    ]


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
        optional=entry.get("optional", []),
    )


def _values(plan, family):
    """What an entry of the list may mention, for one family or for the whole run (None)."""
    scales = [scale for scale in plan.scales if family in (None, scale)]
    values = {
        "family": family,
        "families": plan.families(),
        "real_families": [name for name in plan.families() if name not in plan.scales],
        "shown": [plan.shown(name) for name in plan.families()],
        "draws": [
            f"{scale}/{fit}/{chunk}"
            for scale in scales
            for fit in plan.fits_on_draws(scale)
            for chunk in plan.draw_chunks(scale, fit)
        ],
        "conjecture": [
            f"{fit}/{chunk}"
            for fit in plan.fits_on_draws("conjecture")
            for chunk in plan.draw_chunks("conjecture", fit)
        ],
        "height": plan.config["draws"]["conjecture"]["height"],
        "advi_draws": plan.draw_chunks("advi_traces"),
        "feature_draws": _feature_draws(plan, plan.feature_draw_fits()),
        "feature_noise": _feature_draws(plan, plan.feature_noise_fits()),
        "fits": plan.fits,
        "fits_table": plan.fits_table(),
        "rows": {**plan.fits, "truth": {"label": "True H (control)"}},
        "seed": plan.config["seed"],
        "table_sigma3": plan.table_sigma3,
        **plan.config["feature_test"],
    }
    if family is not None:
        values |= {"shown": plan.shown(family), "data": catalogue.family(family).title, "drawn": ""}
    if family in plan.scales:
        values["drawn"] = (
            f" (noise sd {plan.table_sigma3:g} in source 3). This is one draw, as in the paper, "
            "whose own draw is not known; the table of many draws shows how much draws differ"
        )
    return values


def _feature_draws(plan, fits):
    return [f"{fit}/{chunk}" for fit in fits for chunk in plan.draw_chunks("feature_draws")]


def _files(path, values):
    """The file that a path means, or the files if it mentions a list."""
    (name,) = re.findall(r"\{(\w+)\}", path)
    if isinstance(values[name], str):
        return f"results/{path.format(**values)}"
    return [f"results/{path.format(**{name: one})}" for one in values[name]]


def _listed(files):
    return [files] if isinstance(files, str) else files


def make(function, inputs, settings, optional=()):
    """Call the function "module:name" with its inputs, {argument: file or files}, and settings.

    Files of fits that failed are left out.  An argument that loses all its files stops the exhibit,
    unless it is optional.
    """
    arguments = {}
    for argument, files in inputs.items():
        left = failures.succeeded(_listed(files))
        if files and not left and argument not in optional:
            raise FitError(f"nothing to show: {'; '.join(failures.sentences(_listed(files)))}")
        arguments[argument] = _read(files) if isinstance(files, str) else [*map(_read, left)]
    return resolve_name(function)(**arguments, **settings)


def _read(path):
    import pandas as pd

    from bjmd.results import storage

    if path.endswith(".csv"):
        return pd.read_csv(path)
    if Path(path).parent.name == "data":
        return storage.load_sources(path)
    return storage.load_decompositions(path)


def report(introduction, parts, left_out, failed):
    """The page with all exhibits, given as (section, title, caption, file) from top to bottom."""
    paragraphs = introduction.strip().split("\n\n")
    paragraphs += [f"Left out: {name}, because {reason}." for name, reason in left_out.items()]
    paragraphs += [f"Failed, and left out of tables and figures: {reason}." for reason in failed]
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
