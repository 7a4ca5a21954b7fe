"""The paper's claims, each as a test that could fail.

The claims are data: claims.toml lists them, and says how to add one.  `kinds` has the comparisons
that an entry may ask for, and `verdicts` judges what they find in the `Evidence` of a run.
"""

import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from bjmd_paper.claims import verdicts
from bjmd_paper.claims.evidence import Evidence, Missing
from bjmd_paper.claims.kinds import measure
from bjmd_paper.claims.statistics import LEVEL
from bjmd_paper.claims.verdicts import UNTESTABLE, Outcome
from bjmd_paper.table_files import Marked, Table

TEXT = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
HEADS = {
    "id": "No.",
    "where": "Where",
    "claim": "Claim",
    "paper": "Paper",
    "ours": "Ours",
    "verdict": "Verdict",
    "paper_tables_agree": "Paper's tables agree",
    "numbers": "Numbers",
}
COLOURS = {verdicts.HOLDS: "good", verdicts.SMALLER: "weak", verdicts.REVERSE: "bad"}


def claim(entry, section):
    """An entry of claims.toml with all its keys, and its `readings`.

    These are label -> keys of a comparison; the first, without a label, decides.
    """
    entry = {"where": section.get("where", ""), "caveat": "", "reason": "", **entry}
    about = {key: entry.pop(key) for key in ("id", "where", "sentence", "caveat", "reason")}
    also = entry.pop("also", [])
    as_it_is = entry.pop("as_it_is", False)
    readings = {"": entry} | {keys["label"]: {**entry, **keys} for keys in also}
    readings = {label: _expanded(keys) for label, keys in readings.items()}
    for label, instead in () if as_it_is else TEXT["readings"].items():
        if _replaced(readings[""], instead) != readings[""]:
            readings[label] = _with_other_fits(readings[""], instead)
    own = section.get("own", False)  # a question of our own, not a sentence of the paper
    return {"section": section["title"], "own": own, **about, "readings": readings}


def _expanded(keys):
    """The keys of a comparison, with groups and pairs in place of their names."""
    keys = {key: value for key, value in keys.items() if key != "label"}
    if isinstance(keys.get("pairs"), list):
        keys["pairs"] = {name: TEXT["pairs"][name] for name in keys["pairs"]}
    return _replaced(keys, TEXT["groups"])


def _with_other_fits(keys, instead):
    """The keys of a comparison with other fits; pairs and fits that stay the same are left out."""
    other = _replaced(keys, instead)
    if "pairs" in keys:
        pairs = other["pairs"].items()
        other["pairs"] = {name: pair for name, pair in pairs if pair != keys["pairs"][name]}
    if "fits" in keys:
        other["fits"] = [fit for fit in other["fits"] if fit not in keys["fits"]]
    return other


def _replaced(value, instead):
    """The same with other values in place of some strings."""
    if isinstance(value, dict):
        return {key: _replaced(below, instead) for key, below in value.items()}
    if isinstance(value, list):
        return [_replaced(below, instead) for below in value]
    return instead.get(value, value) if isinstance(value, str) else value


CLAIMS = [claim(entry, section) for section in TEXT["section"] for entry in section["claim"]]
"""All claims: those of the paper in its order, then our own."""


def outcomes(claim, evidence):
    """The outcome of every reading of a claim, by its label."""
    if claim["reason"]:
        return {"": Outcome(UNTESTABLE, numbers=claim["reason"])}
    by_label = {label: compare(evidence, **keys) for label, keys in claim["readings"].items()}
    first = by_label[""]
    if claim["caveat"] and first.verdict != UNTESTABLE:
        by_label[""] = replace(first, ours=f"{first.ours}. {claim['caveat']}")
    return by_label


def compare(evidence, kind, test="above", margin=0.0, note="", **options):
    """The outcome of one comparison, given the keys of an entry of claims.toml."""
    try:
        measured, lacking, only = measure(evidence, kind, **options)
    except Missing as error:
        return Outcome(UNTESTABLE, numbers=f"this run did not make {error}")
    if isinstance(measured[0], Outcome):
        return measured[0].noting(note, lacking)
    outcome = verdicts.judge(measured, test, TEXT["margins"].get(margin, margin))
    outcome = replace(outcome, ours="; ".join(filter(None, [outcome.ours, only])))
    return outcome.noting(note, *dict.fromkeys(effect.note for effect in measured), lacking)


def table(runs, draws, advi, feature_auc, families, rows, table_sigma3):
    """The verdicts on a run: a row for every reading of every claim, the decisive one first.

    `runs` are the scores of its `families`, the other inputs are lists of frames, and `rows` has
    the paper's row of every fit.
    """
    paper_rows = {fit: row["paper_row"] for fit, row in rows.items() if "paper_row" in row}
    frames = [
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        for parts in (draws, advi, feature_auc)
    ]
    runs = dict(zip(families, runs, strict=True))
    evidence = Evidence(paper_rows, table_sigma3, runs, *frames)
    table = pd.DataFrame(
        [
            {
                **{key: claim[key] for key in ("section", "own", "id", "where")},
                "claim": claim["sentence"],
                "reading": label,
                **asdict(outcome),
            }
            for claim in CLAIMS
            for label, outcome in outcomes(claim, evidence).items()
        ]
    )
    return Table(table, shown(table))


def shown(table):
    """What people read: the main claims, all claims by section, and the numbers behind them."""
    decisive = table[table["reading"] == ""]
    of_paper = decisive[~decisive["own"]]
    main = decisive.set_index("id", drop=False).loc[TEXT["main"]]
    parts = [
        _counts(of_paper),
        _marked(main, ["claim", "paper", "ours", "verdict"]),
        " ".join(TEXT["how_to_read"].split()),
        _by_chance(decisive),
    ]
    full = decisive.assign(ours=[_all_readings(table, id) for id in decisive["id"]])
    columns = ["id", "where", "claim", "paper", "ours", "verdict", "paper_tables_agree"]
    for section in TEXT["section"]:
        rows = full[full["section"] == section["title"]]
        heading = f"{section['title']}. {section.get('note', '')}"
        parts += [heading.strip(), _marked(rows, columns)]
    details = decisive[decisive["numbers"] != ""][["id", "numbers"]].rename(columns=HEADS)
    title = "The numbers behind the verdicts; verdicts.csv has those of all readings:"
    return [*parts, title, details]


def _counts(of_paper):
    """How many claims there are of each verdict, as a sentence."""
    number = of_paper["verdict"].value_counts()
    counts = "; ".join(f"{verdict}: {number.get(verdict, 0)}" for verdict in verdicts.VERDICTS)
    return f"{len(of_paper)} claims of the paper. {counts[0].upper()}{counts[1:]}."


def _by_chance(decisive):
    """How many verdicts would be wrong by chance alone."""
    judged = decisive[decisive["intervals"] > 0]
    return (
        f"{len(judged)} of the verdicts, including those on our own questions, rest on "
        f"{judged['intervals'].sum()} intervals over draws. The chance that any interval of a "
        f"verdict misses is at most {100 * (1 - LEVEL):.0f} %, so up to "
        f"{(1 - LEVEL) * len(judged):.1f} of these verdicts are expected to have an interval that "
        "misses by chance alone."
    )


def _all_readings(table, id):
    """What was found about a claim, and by its other readings where their verdict differs."""
    first, *others = table[table["id"] == id].itertuples()
    tested = [row for row in others if row.verdict != UNTESTABLE]
    differ = [
        f"{row.reading}: {row.ours} – {row.verdict}"
        for row in tested
        if row.verdict != first.verdict
    ]
    same = ", ".join(row.reading for row in tested if row.verdict == first.verdict)
    texts = [first.ours, *differ, f"the same: {same}" if same else ""]
    return "; ".join(filter(None, texts))


def _marked(table, columns):
    """Some columns as they are shown, with the verdicts in colour."""
    cells = table[columns].rename(columns=HEADS)
    marks = cells.map(lambda _: "").assign(Verdict=cells["Verdict"].map(COLOURS).fillna(""))
    return Marked(cells, marks)
