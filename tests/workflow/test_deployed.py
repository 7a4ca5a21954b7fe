"""The workflow as a module of another one, from a git repository, as `snakedeploy` sets it up."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import ROOT, Workflow

import bjmd

TAG = f"v{bjmd.__version__}"
DEPLOYED = f"""
configfile: "config/config.yaml"


module bjmd:
    snakefile:
        github("someone/bjmd", path="workflow/Snakefile", tag="{TAG}")
    config:
        config
"""
"""What `snakedeploy deploy-workflow https://github.com/someone/bjmd . --tag` writes, but for `use`.
"""


@pytest.fixture(scope="module")
def github(tmp_path_factory):
    """The variables with which git finds a repository here in place of one on GitHub."""
    folder = tmp_path_factory.mktemp("repository")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "workflow", folder / "workflow", ignore=ignored)
    for command in ("init", "add .", "commit -m all", f"tag {TAG}"):
        me = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
        subprocess.run(["git", *me, *command.split()], cwd=folder, check=True, capture_output=True)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{folder}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/someone/bjmd",
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
    }


def deployed(folder, use):
    """A folder with a Snakefile that uses the rules of the module."""
    snakefile = folder / "workflow/Snakefile"
    snakefile.parent.mkdir(parents=True)
    snakefile.write_text(DEPLOYED + use)
    return Workflow(folder, snakefile)


def test_the_paper_without_a_prefix(github, tmp_path):
    workflow = deployed(tmp_path, "\n\nuse rule * from bjmd\n")
    jobs = workflow.jobs(**github)
    assert jobs["fit"] == 6 and jobs["complete"] == jobs["all"] == 1
    workflow.run("results/scores/small-4.0.csv", **github)
    assert (tmp_path / "results/scores/small-4.0.csv").exists()


def test_own_data_as_the_page_says(github, tmp_path):
    """The block of docs/deploy.md: rules have other names and results another folder; the user's
    files stay where they are.
    """
    (block,) = re.findall("```python\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.DOTALL)
    workflow = deployed(tmp_path / "project", "")
    block = block.replace("OWNER", "someone").replace("vVERSION", TAG)
    workflow.snakefile.write_text(block)
    shutil.copy(ROOT / "config/config.yaml", workflow.folder / "config")
    shutil.copytree(ROOT / "config/example", workflow.folder / "data")
    own = yaml.safe_load((ROOT / ".test/config/own.yaml").read_text())
    files = [f"data/lab-{lab}.tsv" for lab in "abc"]
    own["own"] |= {"sources": files, "labels": "data/labels.tsv"}
    (workflow.folder / "config/own.yaml").write_text(yaml.safe_dump(own))
    workflow.run(**github)
    assert (workflow.folder / "cohorts/results/own/example/report.html").exists()
    assert not (workflow.folder / "results").exists()


def test_short_rules_are_local_under_any_name(github, tmp_path):
    """On a cluster, `prepare` must run where there is a network; only long jobs are submitted."""
    tell = "submitted = {rule.name for rule in workflow.rules} - workflow._localrules\n"
    tell += 'print("submitted:", *sorted(submitted))\n'
    workflow = deployed(tmp_path, f"\n\nuse rule * from bjmd as bjmd_*\n\n\n{tell}")
    planned = workflow.run("--dry-run", **github).stdout
    long = ["advi_trace", "draw", "feature_draw", "fit", "own_data", "own_outputs"]
    (told,) = re.findall("submitted: (.*)", planned)
    assert set(told.split()) == {"bjmd_all", *(f"bjmd_{rule}" for rule in long)}, "all runs nothing"


@pytest.mark.parametrize(
    ("package", "sentence"),
    [
        ("raise ModuleNotFoundError(name='bjmd')", "needs bjmd in the environment that runs"),
        ("__version__ = '0.0.1'", f"needs bjmd {bjmd.__version__} in the environment that runs"),
    ],
    ids=["none", "another version"],
)
def test_an_environment_without_the_package_gets_one_sentence(fresh, package, sentence):
    """Snakemake alone, or with another release."""
    (fresh.folder / "bjmd").mkdir()
    (fresh.folder / "bjmd/__init__.py").write_text(package)
    done = fresh.run("--dry-run", check=False, PYTHONPATH=str(fresh.folder))
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert f"this workflow {sentence}" in text
    assert f"pip install 'bjmd[advi,workflow]=={bjmd.__version__}'" in text
    assert "Traceback" not in text and "ModuleNotFoundError" not in text


def test_conda_gets_the_bjmd_that_runs_snakemake(fresh):
    """In development that is the clone, wherever Snakemake runs; a stand-in for conda notes it."""
    conda = fresh.folder / "bin/conda"
    conda.parent.mkdir()
    conda.write_text(
        "#!/usr/bin/env bash\n"
        "case $1 in\n"
        "--version) echo conda 25.1.0;;\n"
        f'info) echo \'{{"conda_prefix": "{fresh.folder}", "platform": "linux-64"}}\';;\n'
        'config) echo \'{"get": {"channel_priority": "strict"}}\';;\n'
        "env) exit 1;;\n"
        "esac\n"
    )
    conda.chmod(0o755)
    (fresh.folder / "bin/activate").write_text("")
    path = f"{conda.parent}{os.pathsep}{os.environ['PATH']}"
    done = fresh.run("--conda-create-envs-only", "--sdm", "conda", check=False, PATH=path)
    assert "Creating conda environment .snakemake/bjmd-environment.yaml" in done.stderr
    asked = yaml.safe_load((fresh.folder / ".snakemake/bjmd-environment.yaml").read_text())
    released = yaml.safe_load((ROOT / "workflow/envs/bjmd.yaml").read_text())
    assert asked["dependencies"][:-1] == released["dependencies"][:-1]
    (source,) = asked["dependencies"][-1]["pip"]
    assert source.startswith("--editable /") and source.endswith("[advi,workflow]")
