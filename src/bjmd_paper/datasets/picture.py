"""What a data set looks like, unless it has a picture of its own."""


def principal_components(sources, title):
    """The samples on the first two principal components, coloured by class; a panel a source."""
    from matplotlib.figure import Figure
    from scipy.sparse import csc_array, hstack
    from sklearn.decomposition import PCA

    samples = hstack([csc_array(x) for x in sources.matrices]).T
    places = PCA(2, svd_solver="arpack", random_state=0).fit_transform(samples).T
    figure = Figure(figsize=(3.0 * len(sources), 3.6), layout="constrained")
    figure.suptitle(f"{title}: principal components of all samples")
    axes = figure.subplots(1, len(sources), sharex=True, sharey=True, squeeze=False)[0]
    for axis, name, place, labels in zip(
        axes, sources.names, sources.split(places), sources.labels, strict=True
    ):
        axis.plot(*place[:, ~labels.any(axis=0)], ".", markersize=3, color="0.7")
        for k, class_name in enumerate(sources.class_names):
            axis.plot(*place[:, labels[k]], ".", markersize=3, color=f"C{k}", label=class_name)
        axis.set_title(f"{name}: {place.shape[1]} samples", fontsize=10)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=6, frameon=False)
    return figure
