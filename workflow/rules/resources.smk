"""What each rule asks of the machine, from the data as they are, or before they are there, as they are expected to be."""

from bjmd.paper import resources


def on_a_node(estimate, seconds="node_s"):
    """The resources for jobs that need estimate(wildcards, input), with more of it at every attempt.

    The expected seconds are there for `make plan` alone; a cluster is asked for the runtime, which is longer.
    """
    return {
        "mem_mb": lambda wildcards, input, attempt: estimate(wildcards, input).mem_mb(attempt),
        "runtime": lambda wildcards, input, attempt: estimate(wildcards, input).runtime(attempt),
        seconds: lambda wildcards, input: round(estimate(wildcards, input).seconds),
    }


def beside_snakemake(estimate):
    """The same for jobs that take seconds: they are local rules, and a cluster does not see them."""
    return on_a_node(estimate, seconds="local_s")


def shape_of(path, dataset):
    """The shape of a data set of the run, own data included."""

    def expected():
        return (
            resources.shape_of_files(PLAN.own_files()) if PLAN.own else resources.expected_shape(PLAN.family(dataset))
        )

    return resources.shape(path, expected)


def fit_job(wildcards, input):
    """The chunk of restarts that a fit job runs."""
    return {
        "method": PLAN.method(wildcards.fit),
        "shape": shape_of(input.data, wildcards.dataset),
        "n_components": PLAN.n_components(wildcards.dataset),
        "n_restarts": int(wildcards.last) - int(wildcards.first) + 1,
        "options": PLAN.options(wildcards.fit),
    }


def fit_threads(wildcards, input):
    return resources.fit_threads(**fit_job(wildcards, input))


def fit_need(wildcards, input):
    return resources.fit(**fit_job(wildcards, input), n_threads=fit_threads(wildcards, input))


def preparation_need(wildcards, input):
    return resources.prepare(wildcards.real)


def score_need(wildcards, input):
    shape = shape_of(input.data, wildcards.dataset)
    n_runs = sum(PLAN.n_restarts(fit) for fit in PLAN.fits_on(wildcards.dataset))
    return resources.look(shape, PLAN.n_components(wildcards.dataset), n_runs)


def look_need(wildcards, input):
    """Of whatever reads one data set, or makes it."""
    family = next(wildcards[name] for name in ("scale", "real", "family") if name in wildcards.keys())
    data = [path for path in input if path.endswith(".npz")]
    return resources.look(shape_of(data[0] if data else "", family))


def convergence_need(wildcards, input):
    """One fit by the closed form beside the results of ADVI."""
    shape = shape_of(input.data, wildcards.family)
    n_components = PLAN.n_components(PLAN.shown(wildcards.family))
    return resources.fit("cavi-bjmd", shape, n_components, n_restarts=1, options={})


def own_files_need(wildcards, input):
    shape = resources.shape_of_files(PLAN.own_files())
    return resources.read(2 * shape.n_entries / 1e6, shape)


def own_outputs_need(wildcards, input):
    """Of the tables and pictures of one's own data."""
    shape = shape_of(input.data, f"own-{wildcards.own}")
    return resources.look(shape, PLAN.own["n_components"], PLAN.n_restarts("own"))


def table_need(wildcards, input):
    return resources.TABLE
