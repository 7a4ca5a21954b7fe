"""The list of all tables and figures of the paper's run; the targets, the rules and the reports follow from it.

To add one, write a function that returns a matplotlib figure (in figures.py) or a `tables.Table`, and add an `Exhibit`
to EXHIBITS.  The function is called with what its inputs hold, and with its settings, by name.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bjmd.paper.datasets import catalogue
from bjmd.paper.datasets.synthetic import SCALES
from bjmd.report import pages


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure: one for the whole run, or one for every family of data to which it applies."""

    name: str
    """Also of its files; {family} stands for the family."""
    kind: str
    """ "table" or "figure"."""
    section: str
    """Of the report; sections come in the order of the list."""
    title: str
    """{data} stands for the title of the data."""
    caption: str
    function: str
    """What makes it, as module.function of bjmd.paper."""
    inputs: Callable
    """(plan, family) -> {argument: file or list of files}, from which Snakemake knows when to make it again."""
    settings: Callable = lambda plan, family: {}
    """(plan, family) -> {argument: value}."""
    families: Callable = lambda plan: [None]
    """plan -> the families that have one; [None] for one about the whole run."""
    in_reference: bool = True
    """Whether the repository keeps it in the reference run."""


def _scores(plan, families):
    return [f"results/scores/{plan.shown(family)}.csv" for family in families]


def _shown(folder, family, plan, suffix=".npz"):
    return f"results/{folder}/{plan.shown(family)}{suffix}"


def _sweep(plan, scales):
    return [f"results/scores/{dataset}.csv" for scale in scales for dataset in plan.sweep(scale).values()]


def _not_synthetic(plan):
    return [family for family in plan.families() if family not in plan.scales]


def _advi(plan, family):
    """The restarts of the first fit by ADVI, if there is one."""
    dataset = plan.shown(family)
    fits = [fit for fit in plan.fits_on(dataset) if plan.fits[fit]["method"] == "advi-bjmd"]
    return plan.chunks(dataset, fits[0]) if fits else []


FOUND, PERFORMANCE, NOISE, FEATURES = "What was found", "Performance", "Noise", "The feature test"
CONVERGENCE, DATA, MODEL, RUN = "Convergence", "The data", "The model", "How it was run"

EXHIBITS = (
    Exhibit(
        "verdicts",
        "table",
        FOUND,
        "The paper's claims",
        "The claims that the paper makes in its text, each turned into a test on the numbers of this run. Differences "
        "are in points of AUC, one number for each source unless the text names a mean. VI-BJMD is the closed form "
        "here.",
        "verdicts.table",
        lambda plan, _: {"shown": _scores(plan, plan.families()), "swept": _sweep(plan, plan.scales)},
        lambda plan, _: {
            "families": plan.families(),
            "sweeps": {scale: list(plan.sweep(scale)) for scale in plan.scales},
        },
    ),
    Exhibit(
        "performance-{family}",
        "table",
        PERFORMANCE,
        "Performance on {data}",
        "How well the memberships recover the known classes of {data}{drawn}. For each class we take the AUC of the "
        "component that finds it best, and average over the classes; 100 is perfect and 50 is chance. Our columns show "
        "the mean and the standard deviation over the chosen runs, those with the lowest objective; the last column "
        "says how many were chosen out of how many. The paper's columns repeat what it prints, and a positive "
        "difference means that ours is higher. The time is that of one run on one core.",
        "tables.performance",
        lambda plan, family: {"runs": _shown("scores", family, plan, ".csv")},
        lambda plan, family: {"family": family, "fits": plan.rows()},
        families=lambda plan: plan.families(),
    ),
    Exhibit(
        "auc-{family}",
        "figure",
        PERFORMANCE,
        "AUC against the noise of source 3, {data}",
        "The AUC in each source of {data} as source 3 gets noisier and sources 1 and 2 stay as they are. Dashed lines "
        "with open markers are methods that estimate one noise level per source; solid lines are methods that treat "
        "all samples as one source. A dashed line that stays flat in sources 1 and 2 means that the noise of source 3 "
        "does no harm there.",
        "figures.auc",
        lambda plan, scale: {"runs": _sweep(plan, [scale])},
        lambda plan, scale: {"levels": list(plan.sweep(scale)), "fits": plan.fits},
        families=lambda plan: plan.scales,
    ),
    Exhibit(
        "noise-levels",
        "table",
        NOISE,
        "Noise levels in the real data",
        "The standard deviation of the noise that each method found in each source of the real data, averaged over its "
        "chosen runs, beside the paper's number where it prints one.",
        "tables.noise_levels",
        lambda plan, _: {"runs": _scores(plan, _not_synthetic(plan))},
        lambda plan, _: {"families": _not_synthetic(plan), "fits": plan.rows()},
        families=lambda plan: [None] if plan.real else [],
    ),
    Exhibit(
        "noise-{family}",
        "figure",
        NOISE,
        "True and estimated noise, {data}",
        "The noise that was added to each source of {data} (histograms), and the normal density with the standard "
        "deviation that each method estimated without seeing it (curves). The closer a curve follows its histogram, "
        "the better the method found the noise of that source.",
        "figures.noise",
        lambda plan, scale: {
            "sources": _shown("data", scale, plan),
            "truth": _shown("truth", scale, plan),
            "runs": _shown("scores", scale, plan, ".csv"),
        },
        lambda plan, _: {"fits": plan.fits},
        families=lambda plan: plan.scales,
    ),
    Exhibit(
        "feature-test-{family}",
        "figure",
        FEATURES,
        "The feature test on {data}",
        "The sample variance of every feature of {data} in each source, in descending order, with the noise variance "
        "that was estimated for the source and the threshold above which a feature is more than noise (a chi-square "
        "test with Bonferroni's correction). Features that pass in {rule} of the sources are kept.",
        "figures.features",
        lambda plan, real: {
            "table": f"results/tables/feature-test-{real}.csv",
            "sources": _shown("data", real, plan),
            "runs": _shown("scores", real, plan, ".csv"),
        },
        lambda plan, _: {key: plan.config["feature_test"][key] for key in ("fit", "level")},
        families=lambda plan: plan.filtered(),
    ),
    Exhibit(
        "objective-{family}",
        "figure",
        CONVERGENCE,
        "Objective on {data}",
        "The objective after each iteration on {data}. The thick line is the run with the lowest objective; thin lines "
        "are the other chosen runs. Solid lines treat all sources as one; dashed lines have one noise level per "
        "source. Each panel has an objective of its own, so compare lines only within a panel.",
        "figures.objective",
        lambda plan, family: {"traces": _shown("scores", family, plan, ".traces.csv")},
        lambda plan, _: {"fits": plan.fits},
        families=lambda plan: plan.families(),
    ),
    Exhibit(
        "convergence-{family}",
        "figure",
        CONVERGENCE,
        "ADVI and the closed form on {data}",
        "How the paper's variational inference (ADVI, above) and the closed form (below) converge on {data}: minus the "
        "ELBO, the relative change on which each of them stops, and the AUC in each source. ADVI counts thousands of "
        "noisy gradient steps; the closed form counts sweeps.",
        "figures.convergence",
        lambda plan, family: {"sources": _shown("data", family, plan), "advi": _advi(plan, family)},
        lambda plan, family: {"n_components": plan.n_components(plan.shown(family)), "seed": plan.config["seed"]},
        families=lambda plan: [family for family in plan.families() if _advi(plan, family)],
    ),
    Exhibit(
        "data",
        "table",
        DATA,
        "All data sets",
        "The data sets of this run, with their features, the samples of each source, and the classes. For real data "
        "the paper's numbers stand beside ours, and the card of each data set explains every difference. The classes "
        "of the synthetic data are the components, including the empty one.",
        "datasets.cards.summary",
        lambda plan, _: {"data": [_shown("data", family, plan) for family in plan.families()]},
        lambda plan, _: {"families": plan.families()},
    ),
    Exhibit(
        "card-{family}",
        "table",
        DATA,
        "Card of {data}",
        "Where {data} comes from, how the prepared data compare with the paper's numbers, the reason for every "
        "difference, and the number of samples of each class in each source.",
        "datasets.cards.card",
        lambda plan, real: {"sources": _shown("data", real, plan)},
        lambda plan, real: {"name": real},
        families=lambda plan: plan.real,
    ),
    Exhibit(
        "data-{family}",
        "figure",
        DATA,
        "A look at {data}",
        "What {data} looks like after preparation.",
        "datasets.cards.picture",
        lambda plan, real: {"sources": _shown("data", real, plan)},
        lambda plan, real: {"name": real},
        families=lambda plan: [real for real in plan.real if catalogue.get(real).draw],
        in_reference=False,  # the data are not ours to pass on
    ),
    Exhibit(
        "graphical-models",
        "figure",
        MODEL,
        "The graphical models",
        "What depends on what: (a) the model itself; (b) the paper's reformulation, in which the Laplace prior on W "
        "becomes a normal prior whose variance z has an exponential prior. Shaded circles are observed, dots are "
        "constants, and boxes are repeated for every source, sample or feature; w and z are also repeated for every "
        "component.",
        "graphical_models.graphical_models",
        lambda plan, _: {},
    ),
    Exhibit(
        "provenance",
        "table",
        RUN,
        "Fits, times and versions",
        "Every fit with its options, how many restarts it had and how many of them were chosen by their objective "
        "(ADVI, which is slow, has fewer); the processor time of all restarts of each fit on each kind of data, for "
        "synthetic data over the whole sweep; and the seed and the versions of this run.",
        "provenance.provenance",
        lambda plan, _: {"runs": [f"results/scores/{dataset}.csv" for dataset in plan.datasets()]},
        lambda plan, _: {
            "families": [plan.family(dataset) for dataset in plan.datasets()],
            "fits": plan.fits_table(),
            "seed": plan.config["seed"],
        },
    ),
)

FORMATS = {"table": ("csv", "md", "tex", "html", "fragment.html"), "figure": ("svg", "png")}


@dataclass(frozen=True)
class Shown:
    """An exhibit as one run shows it."""

    name: str
    kind: str
    section: str
    title: str
    caption: str
    function: str
    inputs: dict
    settings: dict
    in_reference: bool

    def file(self, ending):
        return f"results/{self.kind}s/{self.name}.{ending}"

    def files(self):
        return [self.file(ending) for ending in FORMATS[self.kind]]

    def part(self):
        """The file that the report takes in."""
        return self.file("fragment.html" if self.kind == "table" else "png")

    def reference_files(self):
        """What the reference run keeps: the numbers and the text of a table, a picture, and the table behind it."""
        kept = [self.file(ending) for ending in (("csv", "md") if self.kind == "table" else ("png",))]
        behind = [path for path in self.inputs.values() if str(path).startswith("results/tables/")]
        return [*kept, *behind] if self.in_reference else []


def of(plan):
    """The exhibits of one run as the report has them: section by section, and within a section family by family."""
    order = [None, *plan.families()]
    sections = list(dict.fromkeys(exhibit.section for exhibit in EXHIBITS))
    both = [(exhibit, family) for exhibit in EXHIBITS for family in exhibit.families(plan)]
    both.sort(key=lambda pair: (sections.index(pair[0].section), order.index(pair[1])))
    return [_resolved(exhibit, plan, family) for exhibit, family in both]


def _resolved(exhibit, plan, family):
    about = _about(plan, family)
    return Shown(
        name=exhibit.name.format(family=family),
        kind=exhibit.kind,
        section=exhibit.section,
        title=exhibit.title.format(**about),
        caption=exhibit.caption.format(**about),
        function=exhibit.function,
        inputs=exhibit.inputs(plan, family),
        settings=exhibit.settings(plan, family),
        in_reference=exhibit.in_reference,
    )


def _about(plan, family):
    """What titles and captions may speak of."""
    drawn = ""
    if family in SCALES:
        drawn = (
            f" (noise sd {plan.config['synthetic']['table_sigma3']} in source 3; the paper made its own draw by the "
            "same recipe, so the noisiest source may differ by a point or two)"
        )
    return {
        "data": catalogue.family(family).title if family else "",
        "drawn": drawn,
        "rule": plan.config["feature_test"]["rule"],
    }


def make(function, inputs, settings):
    """The table or figure that a function of bjmd.paper makes of its inputs, given as {argument: file or files}."""
    module, _, name = function.rpartition(".")
    return getattr(importlib.import_module(f"bjmd.paper.{module}"), name)(
        **{argument: _read(path) for argument, path in inputs.items()}, **settings
    )


def _read(path):
    import pandas as pd

    from bjmd.fits import storage

    if not isinstance(path, str):
        return [_read(one) for one in path]
    if path.endswith(".csv"):
        return pd.read_csv(path)
    return storage.load_sources(path) if Path(path).parts[1] == "data" else storage.load_decompositions(path)


def report(introduction, parts, left_out):
    """The page with all exhibits, given as (section, title, caption, file) from top to bottom."""
    opening = [pages.paragraph(" ".join(text.split())) for text in introduction.strip().split("\n\n")]
    if left_out:
        opening.append(
            pages.paragraph(
                f"Left out, because their files are neither at hand nor could be downloaded: {', '.join(left_out)}. "
                "docs/data.md says what to fetch by hand and where to put it."
            )
        )
    sections = {}
    for section, title, caption, path in parts:
        if path.endswith(".png"):
            shown = pages.picture(Path(path).read_bytes(), title, caption)
        else:
            shown = pages.paragraph(caption) + Path(path).read_text()
        sections.setdefault(section, []).append(shown)
    return pages.page(
        "The BJMD paper, run again", [*opening, *(pages.section(title, shown) for title, shown in sections.items())]
    )
