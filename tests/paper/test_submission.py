import pytest

from bjmd.errors import InputError
from bjmd.paper import submission

DRY_RUN = """
Building DAG of jobs...
[Mon Nov 16 05:45:34 2026]
rule synthetic:
    output: a.npz, a.truth.npz
    jobid: 3
    resources: tmpdir=/tmp, runtime=10, local_s=36, mem_mb=525, mem=525 MB, mem_mib=501
[Mon Nov 16 05:45:34 2026] Group job prepare-b (jobs in lexicogr. order):

    [Mon Nov 16 05:45:34 2026]
    rule prepare:
        input: b.files
        output: b.npz
        resources: tmpdir=/tmp, runtime=10, node_s=360, mem_mb=525
    [Mon Nov 16 05:45:34 2026]
    rule unpack:
        output: b.files
        resources: tmpdir=/tmp, runtime=10, node_s=360, mem_mb=525
[Mon Nov 16 05:45:34 2026]
rule fit:
    input: a.npz
    output: a.fit.npz
    reason: Missing output files: a.fit.npz; Input files updated by another job: a.npz
    threads: 4
    resources: tmpdir=/tmp, runtime=10, node_s=3600, mem_mb=525
[Mon Nov 16 05:45:34 2026]
rule fit:
    input: b.npz
    output: b.fit.npz
    resources: tmpdir=/tmp, runtime=10, node_s=7200, mem_mb=525
[Mon Nov 16 05:45:34 2026]
rule score:
    input: a.npz, b.fit.npz, a.fit.npz
    output: score.csv
    resources: tmpdir=/tmp, runtime=10, local_s=360, mem_mb=525
[Mon Nov 16 05:45:34 2026]
rule all:
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
    assert [job.rule for job in jobs.values()] == ["synthetic", "prepare", "unpack", "fit", "fit", "score"]
    assert jobs["a.fit.npz"].cpu_hours == 4
    assert jobs["score.csv"].inputs == {"a.npz", "b.fit.npz", "a.fit.npz"}
    assert [job.group for job in jobs.values()] == ["", "prepare-b", "prepare-b", "", "", ""]
    assert [path for path, job in jobs.items() if not job.submitted] == ["a.npz", "score.csv"]


def test_the_longest_chain_is_the_longest_in_hours():
    chain = submission.longest_chain(submission.read_jobs(DRY_RUN))
    assert [job.rule for job in chain] == ["unpack", "prepare", "fit", "score"]
    assert sum(job.hours for job in chain) == pytest.approx(0.1 + 0.1 + 2 + 0.1)


def test_the_report_counts_a_group_as_one_job():
    report = submission.report(submission.read_jobs(DRY_RUN))
    assert "| fit | 2 | cluster | 6.00 | 2.00 |" in report
    assert "3 jobs are submitted to the cluster, for 6.2 CPU hours; 2 short ones run beside Snakemake." in report
    assert "The longest chain takes 2.3 hours: unpack -> prepare -> fit -> score." in report


def test_something_else_than_a_dry_run_is_refused():
    with pytest.raises(InputError, match="no job was found; pipe the output of snakemake --dry-run"):
        submission.read_jobs("Nothing to be done.")
