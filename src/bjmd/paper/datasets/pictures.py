"""One figure per real data set that shows what the data look like."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.cluster.hierarchy import leaves_list, linkage

from bjmd.paper.datasets import catalogue
from bjmd.paper.datasets.yale_b import HEIGHT, WIDTH


def terms(sources, title, n_terms=20):
    """The most frequent terms of each source, in tokens per thousand; dots mark the same terms in the other sources."""
    per_thousand = []
    for x in sources.matrices:
        totals = x.sum(axis=1)
        per_thousand.append(1000 * totals / totals.sum())
    figure = Figure(figsize=(3.6 * len(sources), 0.24 * n_terms + 1.2), layout="constrained")
    figure.suptitle(f"{title}: most frequent word stems (bars), and how often the other two sources use them (dots)")
    axes = figure.subplots(1, len(sources), sharex=True)
    for c, axis in enumerate(axes):
        top = np.argsort(-per_thousand[c], kind="stable")[:n_terms]
        axis.barh(range(n_terms), per_thousand[c][top], color=f"C{c}", alpha=0.75)
        for other in range(len(sources)):
            if other != c:
                axis.plot(per_thousand[other][top], range(n_terms), "o", ms=3.5, color=f"C{other}")
        axis.set_yticks(range(n_terms), [sources.feature_names[i] for i in top])
        axis.invert_yaxis()
        axis.set_title(f"{sources.names[c]}: {sources.n_samples[c]} documents", color=f"C{c}", fontsize=10)
        axis.set_xlabel("per 1000 tokens")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def faces(sources, title, n_people=9, n_lights=3):
    """The same people under a few lights of each source, on one grey scale, so that the shadows can be compared."""
    people = [sources.class_names[i] for i in np.linspace(0, len(sources.class_names) - 1, n_people).astype(int)]
    brightest = max(np.percentile(x, 99.5) for x in sources.matrices)
    figure = Figure(figsize=(n_people + 1.6, 1.16 * n_lights * len(sources) + 0.9), layout="constrained")
    figure.suptitle(f"{title}: one column a person")
    axes = figure.subplots(n_lights * len(sources), n_people)
    for c, (name, x) in enumerate(zip(sources.names, sources.matrices, strict=True)):
        column = {sample: j for j, sample in enumerate(sources.sample_names[c])}
        shared = set.intersection(*({s.removeprefix(one) for s in column if s.startswith(one)} for one in people))
        lights = sorted(shared, key=lambda light: (int(light[5:9]), light))  # _P00A-025E+00: by azimuth
        chosen = [lights[i] for i in np.linspace(0, len(lights) - 1, n_lights).astype(int)]
        for row, light in zip(axes[c * n_lights : (c + 1) * n_lights], chosen, strict=True):
            for axis, one in zip(row, people, strict=True):
                image = x[:, column[one + light]].reshape(HEIGHT, WIDTH)
                shades = axis.imshow(image, cmap="gray", vmin=0, vmax=brightest)
                axis.set(xticks=[], yticks=[])
            row[0].set_ylabel(f"{name}\nazimuth {int(light[5:9])}°\nelevation {int(light[10:13])}°", fontsize=8)
    figure.colorbar(shades, ax=axes, shrink=0.5, aspect=30, label="multiples of the group's mean")
    return figure


def expression(sources, title, n_genes=40):
    """The genes that differ most between the classes, each centred; one panel a group, patients by class."""
    n_all = sum(sources.n_samples)
    means = sum(x.sum(axis=1) for x in sources.matrices) / n_all
    sizes = sum(labels.sum(axis=1) for labels in sources.labels)
    class_sums = sum(x @ labels.T.astype(float) for x, labels in zip(sources.matrices, sources.labels, strict=True))
    between = (class_sums**2 / np.maximum(sizes, 1)).sum(axis=1) - n_all * means**2
    top = np.argsort(-between, kind="stable")[:n_genes]
    blocks = [x[top] - means[top, None] for x in sources.matrices]
    # Genes that go together stand together.
    order = leaves_list(linkage(np.hstack(blocks), method="average", metric="correlation"))
    limit = np.percentile(np.abs(np.hstack(blocks)), 98)

    figure = Figure(figsize=(11, 0.15 * len(top) + 1.8), layout="constrained")
    figure.suptitle(f"{title}: the {len(top)} genes that differ most between the subtypes")
    axes = figure.subplots(
        2,
        len(sources),
        width_ratios=np.sqrt(sources.n_samples),
        height_ratios=[1, 0.9 * len(top)],
        sharex="col",
        squeeze=False,
    )
    classes = ListedColormap([f"C{k}" for k in range(len(sources.class_names))])
    for c, (block, labels) in enumerate(zip(blocks, sources.labels, strict=True)):
        belongs = labels.argmax(axis=0)
        patients = np.argsort(belongs, kind="stable")
        strip, map_ = axes[:, c]
        strip.imshow(belongs[None, patients], cmap=classes, vmin=-0.5, vmax=classes.N - 0.5, aspect="auto")
        strip.set_yticks([])
        strip.tick_params(bottom=False, labelbottom=False)
        strip.set_title(f"{sources.names[c]} cellularity: {block.shape[1]} patients", fontsize=10)
        heat = map_.imshow(block[order][:, patients], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        map_.set_xticks([])
        map_.set_yticks([])
    axes[1, 0].set_yticks(range(len(top)), [sources.feature_names[i] for i in top[order]], fontsize=6)
    figure.colorbar(heat, ax=axes, shrink=0.6, aspect=30, label="difference from the gene's mean")
    figure.legend(
        handles=[Patch(color=classes(k), label=name) for k, name in enumerate(sources.class_names)],
        loc="outside lower center",
        ncols=len(sources.class_names),
        frameon=False,
    )
    return figure


DRAWINGS = {"3sources": terms, "yale-b": faces, "metabric": expression, "metabric-489": expression}


def picture(name, sources):
    """The figure of one data set."""
    return DRAWINGS[name](sources, catalogue.get(name).title)
