import pytest

from bjmd.errors import InputError
from bjmd_paper import submission

DRY_RUN = """
Building DAG of jobs...
[Mon Nov 16 05:45:34 2026]
localrule synthetic:
    output: a.npz, a.truth.npz
    jobid: 3
    resources: tmpdir=/tmp
[Mon Nov 16 05:45:34 2026]
localrule prepare:
    output: b.npz
    resources: tmpdir=/tmp
[Mon Nov 16 05:45:34 2026]
rule fit:
    input: a.npz
    output: a.fit.npz
    reason: Missing output files: a.fit.npz; Input files updated by another job: a.npz
    threads: 4
    resources: tmpdir=/tmp, runtime=10, expected_s=3600, mem_mb=525
[Mon Nov 16 05:45:34 2026]
rule fit:
    input: b.npz
    output: b.fit.npz
    resources: tmpdir=/tmp, runtime=10, expected_s=7200, mem_mb=525
[Mon Nov 16 05:45:34 2026]
localrule score:
    input: a.npz, b.fit.npz, a.fit.npz
    output: score.csv
    resources: tmpdir=/tmp
[Mon Nov 16 05:45:34 2026]
localrule all:
    input: score.csv
    jobid: 0
    resources: tmpdir=/tmp
Job stats:
job      count
-----  -------
all          1
"""


def test_jobs_of_a_dry_run():
    jobs = {min(job.outputs): job for job in submission.read_jobs(DRY_RUN)}
    assert [job.rule for job in jobs.values()] == ["synthetic", "prepare", "fit", "fit", "score"]
    assert jobs["a.fit.npz"].cpu_hours == 4
    assert jobs["score.csv"].inputs == {"a.npz", "b.fit.npz", "a.fit.npz"}
    assert [path for path, job in jobs.items() if not job.submitted] == [
        "a.npz",
        "b.npz",
        "score.csv",
    ]


def test_the_longest_chain_is_the_longest_in_hours():
    chain = submission.longest_chain(submission.read_jobs(DRY_RUN))
    assert [job.rule for job in chain] == ["prepare", "fit", "score"]
    assert sum(job.hours for job in chain) == pytest.approx(2 + 10 / 3600)


def test_the_report_says_what_is_submitted():
    report = submission.report(submission.read_jobs(DRY_RUN))
    assert "| fit | 2 | cluster | 6.00 | 2.00 |" in report
    assert (
        "2 jobs are submitted to the cluster, for 6.0 CPU hours; 3 short ones run beside Snakemake."
        in report
    )
    assert "The longest chain takes 2.0 hours: prepare -> fit -> score." in report


@pytest.mark.parametrize(
    "text", ["Nothing to be done.", DRY_RUN + "Job 7: Fitting jnmf to small-4.0.\n"]
)
def test_something_else_than_a_dry_run_with_all_details_is_refused(text):
    with pytest.raises(
        InputError, match="not a dry run with all details; pipe in that of BJMD_PLAN=1 snakemake"
    ):
        submission.read_jobs(text)
