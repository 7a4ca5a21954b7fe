import numpy as np
import pytest

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue
from bjmd_paper.datasets.real import metabric, metabric_489

# Patients 1 and 2 are low, 3 moderate, 4 and 5 high; the others lack a cellularity or one of the
# five classes.
RECENT = """\
#Patient Identifier\tCellularity\tOther\tPam50 + Claudin-low subtype
#Identifier\tTumor Content\t"Text, quoted"\tSubtype
#STRING\tSTRING\tSTRING\tSTRING
#1\t1\t1\t1
PATIENT_ID\tCELLULARITY\tOTHER\tCLAUDIN_SUBTYPE
MB-0001\tLow\tx\tLumA
MB-0002\tLow\t\tBasal
MB-0003\tModerate\tx\tNormal
MB-0004\tHigh\tx\tHer2
MB-0005\tHigh\tx\tLumB
MB-0006\tHigh\tx\tclaudin-low
MB-0007\tHigh\tx\tNC
MB-0008\t\tx\tLumA
MB-0009\tLow
"""
EXPRESSION = """\
Hugo_Symbol\tEntrez_Gene_Id\tMB-0005\tMB-0001\tMB-0003\tMB-0002\tMB-0006\tMB-0004\tMB-9999
ESR1\t2099\t1\t2\t3\t4\t0\t5\t0
BIRC5\t332\t10\t20\t30\t40\t0\t50\t0
BIRC5\t332\t12\t22\t32\t42\t0\t52\t0
\t7157\t1\t1\t1\t1\tNA\t1\t
GAPS\t1\t1\tNA\t1\t1\t1\t1\t1
HALF\t2\t7\t7\t7\t7\t7\t7\t7
HALF\t2\t9\t9\t9\t\t9\t9\t9
NaN\t3\t6.123456789012345\t6\t6\t6\t6\t6\t6
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data_clinical_patient.txt").write_text(RECENT)
    (tmp_path / "data_mrna_illumina_microarray.txt").write_text(EXPRESSION)
    return tmp_path


def same(one, other):
    assert one.feature_names == other.feature_names
    assert one.sample_names == other.sample_names
    for name in ("matrices", "labels"):
        for x, y in zip(getattr(one, name), getattr(other, name), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("rows_at_a_time", [1000, 2], ids=["in one go", "in pieces"])
def test_groups_classes_and_mean_of_rows(folder, rows_at_a_time, monkeypatch):
    monkeypatch.setattr(metabric, "ROWS_AT_A_TIME", rows_at_a_time)
    sources = metabric.read(folder)
    assert sources.names == ["low", "moderate", "high"]
    assert sources.class_names == ["Basal", "Her2", "LumA", "LumB", "Normal"]
    # in the order of the expression file
    assert sources.sample_names == [["MB-0001", "MB-0002"], ["MB-0003"], ["MB-0005", "MB-0004"]]
    # a gene without symbol has its number; a missing value counts only where a patient of ours
    # lacks it
    assert sources.feature_names == ["ESR1", "BIRC5", "7157", "HALF", "NaN"]
    np.testing.assert_array_equal(sources.matrices[0], [[2, 4], [21, 41], [1, 1], [7, 7], [6, 6]])
    np.testing.assert_array_equal(sources.matrices[1], [[3], [31], [1], [7], [6]])
    np.testing.assert_array_equal(
        sources.matrices[2], [[1, 5], [11, 51], [1, 1], [7, 7], [6.123456789012345, 6]]
    )
    np.testing.assert_array_equal(sources.labels[0].T, [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_array_equal(sources.labels[2].T, [[0, 0, 0, 1, 0], [0, 1, 0, 0, 0]])


def older_release(text):
    """Other column order, lower case, `null`, bare carriage returns."""
    rows = [
        [*line.split("\t"), "", ""][:4] for line in text.splitlines() if not line.startswith("#")
    ]
    header, *patients = ["\t".join(cell or "null" for cell in reversed(row)) for row in rows]
    patients = [line.replace("Low", "low").replace("High", "high") for line in patients]
    return "\r".join(["#STRING", header, *patients, ""])


@pytest.mark.parametrize(
    "variant",
    [
        older_release,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text.upper(),
        lambda text: text.replace("\t\t", "\tNA\t").rstrip("\n"),
        lambda text: text.replace("PATIENT_ID", "SAMPLE_ID").replace(
            "CLAUDIN_SUBTYPE", "Pam50_Subtype"
        ),
        lambda text: text.replace("Low", '"Low"'),
    ],
)
def test_clinical_file_variants(folder, variant):
    path = folder / "data_clinical_patient.txt"
    expected = metabric.read_patients(path)
    assert len(expected) == 5
    path.write_bytes(variant(RECENT).encode())
    assert metabric.read_patients(path).equals(expected)


def test_five_class_column_is_preferred(folder):
    path = folder / "data_clinical_patient.txt"
    lines = RECENT.splitlines()[4:-1]
    calls = ["Pam50_SUBTYPE"] + ["LumA"] * (len(lines) - 1)
    path.write_text("\n".join(f"{line}\t{call}" for line, call in zip(lines, calls, strict=True)))
    patients = metabric.read_patients(path)
    assert set(patients["class"]) == {"LumA"} and len(patients) == 7


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        (lambda text: text.replace("CELLULARITY", "CELLS"), "no column CELLULARITY"),
        (lambda text: text.replace("Moderate", "Low"), "source 'moderate' is empty"),
    ],
)
def test_clinical_file_that_cannot_be_used(folder, variant, words):
    (folder / "data_clinical_patient.txt").write_text(variant(RECENT))
    with pytest.raises(InputError, match=words):
        metabric.read(folder)


def without_entrez(text):
    rows = [line.split("\t") for line in text.splitlines()]
    return "\n".join("\t".join([symbol or entrez, *values]) for symbol, entrez, *values in rows)


@pytest.mark.parametrize("name", catalogue.get("metabric").members[0].names)
def test_expression_file_variants(folder, name):
    expected = metabric.read(folder)
    (folder / "data_mrna_illumina_microarray.txt").unlink()
    for text in (
        EXPRESSION.replace("\n", "\r\n") + "\r\n",
        EXPRESSION.replace("NA\t", "null\t").rstrip("\n"),
        EXPRESSION.replace("MB-", "BRCA.METABRIC.S1.MB."),
        without_entrez(EXPRESSION),
    ):
        (folder / name).write_bytes(text.encode())
        same(metabric.read(folder), expected)


def test_public_table(tmp_path):
    (tmp_path / "METABRIC_RNA_Mutation.csv").write_text(
        "patient_id,cellularity,pam50_+_claudin-low_subtype,death_from_cancer,brca1,tp53,tp53_mut\n"
        "1,Low,LumA,x,1.7530000000000001,-1.0,0\n2,High,Basal,x,0.5,0.25,R\n"
        "3,Moderate,Normal,x,0.1,0.2,0\n4,,LumA,x,9,9,0\n5,High,NC,x,9,9,0\n"
        "6,High,claudin-low,x,9,9,0\n"
    )
    sources = metabric_489.read(tmp_path)
    assert sources.feature_names == ["BRCA1", "TP53"]
    assert sources.sample_names == [["MB-0001"], ["MB-0003"], ["MB-0002"]]
    np.testing.assert_array_equal(sources.matrices[0], [[1.753], [-1]])
