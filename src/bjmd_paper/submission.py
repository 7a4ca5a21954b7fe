"""What a run would submit to a cluster, from Snakemake's dry run:

    BJMD_PLAN=1 snakemake --dry-run --profile workflow/profiles/slurm | python -m bjmd_paper.submission

prints the number of jobs of each rule, their CPU hours, and the longest chain of jobs that wait for
each other.
"""

import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from graphlib import TopologicalSorter

from bjmd.errors import InputError

LOCAL_SECONDS = 5
"""What a job takes on average that runs beside Snakemake."""


@dataclass(frozen=True)
class Job:
    """One job of a dry run."""

    rule: str
    inputs: frozenset
    outputs: frozenset
    threads: int
    hours: float
    submitted: bool

    @property
    def cpu_hours(self):
        return self.threads * self.hours


def read_jobs(text):
    """The jobs in the text of a dry run."""
    jobs = []
    # a rule's name stands before its indented fields
    for match in re.finditer(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", text, re.MULTILINE):
        fields = dict(re.findall(r"^ +(\w+): (.*)$", match[2], re.MULTILINE))
        resources = dict(re.findall(r"(\w+)=([^,]+)", fields["resources"]))
        if match[1] != "all":
            jobs.append(
                Job(
                    rule=match[1],
                    inputs=_files(fields.get("input", "")),
                    outputs=_files(fields["output"]),
                    threads=int(fields.get("threads", 1)),
                    hours=int(resources.get("expected_s", LOCAL_SECONDS)) / 3600,
                    submitted="expected_s" in resources,
                )
            )
    if not jobs or re.search(r"^Job \d+: ", text, re.MULTILINE):
        raise InputError(
            "this is not a dry run with all details; pipe in that of BJMD_PLAN=1 snakemake --dry-run"
        )
    return jobs


def _files(field):
    return frozenset(filter(None, field.split(", ")))


def longest_chain(jobs):
    """The jobs, first to last, whose hours add up to the least time that the run can take."""
    maker = {path: job for job in jobs for path in job.outputs}
    needs = {job: {maker[path] for path in job.inputs if path in maker} for job in jobs}
    until: dict[Job, float] = {}
    before: dict[Job, Job | None] = {}
    for job in TopologicalSorter(needs).static_order():
        before[job] = max(needs[job], key=until.__getitem__, default=None)
        until[job] = job.hours + max((until[need] for need in needs[job]), default=0)
    chain = [max(until, key=until.__getitem__)]
    while (earlier := before[chain[0]]) is not None:
        chain.insert(0, earlier)
    return chain


def report(jobs):
    """The whole submission as text."""
    by_rule = defaultdict(list)
    for job in sorted(jobs, key=lambda job: not job.submitted):
        by_rule[job.rule].append(job)
    lines = ["| rule | jobs | where | CPU hours | longest job (h) |", "|---|---:|---|---:|---:|"]
    for rule, group in by_rule.items():
        where = "cluster" if group[0].submitted else "local"
        cpu_hours = sum(job.cpu_hours for job in group)
        longest = max(job.hours for job in group)
        lines.append(f"| {rule} | {len(group)} | {where} | {cpu_hours:.2f} | {longest:.2f} |")
    submitted = [job for job in jobs if job.submitted]
    chain = longest_chain(jobs)
    return "\n".join(
        [
            *lines,
            "",
            f"{len(submitted)} jobs are submitted to the cluster, for "
            f"{sum(job.cpu_hours for job in submitted):.1f} CPU hours; {len(jobs) - len(submitted)} short ones run "
            "beside Snakemake.",
            f"The longest chain takes {sum(job.hours for job in chain):.1f} hours: "
            f"{' -> '.join(job.rule for job in chain)}.",
        ]
    )


if __name__ == "__main__":
    try:
        print(report(read_jobs(sys.stdin.read())))
    except InputError as error:
        sys.exit(str(error))
