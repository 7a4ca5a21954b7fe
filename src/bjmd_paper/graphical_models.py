"""The paper's two graphical models, drawn from a statement of which variable depends on which."""

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from bjmd.report.figures import COLOURS, styled

# name: (label, x, y, kind, parents).  A constant is small and black, an observed variable is
# shaded.
_COMMON = {
    "alpha0": (r"$\alpha_0$", 0.0, 3.0, "constant", ()),
    "H": (r"$h^{(c)}_{\cdot j}$", 1.3, 3.0, "hidden", ("alpha0",)),
    "X": (r"$x^{(c)}_{ij}$", 2.8, 2.0, "observed", ("H", "W", "s2")),
    "s2": (r"$\sigma^2_c$", 2.8, 3.95, "hidden", ("a0", "b0")),
    "a0": (r"$a_0$", 4.5, 4.25, "constant", ()),
    "b0": (r"$b_0$", 4.5, 3.65, "constant", ()),
}
MODELS = {
    "(a) BJMD": {
        **_COMMON,
        "W": (r"$w_{ik}$", 2.8, 0.6, "hidden", ("lambda",)),
        "lambda": (r"$\lambda$", 4.5, 0.6, "constant", ()),
    },
    "(b) Reformulated BJMD": {
        **_COMMON,
        "W": (r"$w_{ik}$", 2.3, 0.6, "hidden", ("Z",)),
        "Z": (r"$z_{ik}$", 3.4, 0.6, "hidden", ("lambda",)),
        "lambda": (r"$\lambda$", 4.5, 0.6, "constant", ()),
    },
}
# x, y, width, height, text, where the text goes
PLATES = (
    (0.65, 1.35, 2.75, 3.05, "sources $c$", (0.72, 4.2)),
    (0.8, 1.5, 2.45, 1.95, "samples $j$", (0.87, 1.6)),
    (1.8, 0.05, 2.15, 2.45, "features $i$", (1.87, 0.13)),
)


@styled
def graphical_models():
    """Both models side by side; plates show repeated variables (w and z also by component)."""
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    for ax, (title, variables) in zip(figure.subplots(1, 2), MODELS.items(), strict=True):
        for x, y, width, height, text, where in PLATES:
            box = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.12")
            box.set(facecolor="none", edgecolor="0.55", linewidth=1)
            ax.add_patch(box)
            ax.text(*where, text, color="0.35", fontsize=8)
        for _, x, y, _, parents in variables.values():
            for parent in parents:
                _, x0, y0, kind, _ = variables[parent]
                gap = 3 if kind == "constant" else 20
                arrow = {"arrowstyle": "-|>", "color": "black", "mutation_scale": 11}
                ends = {"shrinkA": gap, "shrinkB": 20}
                ax.annotate("", (x, y), (x0, y0), arrowprops={**arrow, **ends})
        for label, x, y, kind, _ in variables.values():
            if kind == "constant":
                ax.add_patch(Circle((x, y), 0.05, color="black"))
                ax.text(x, y + 0.12, label, ha="center", va="bottom")
            else:
                shade = "0.85" if kind == "observed" else "white"
                circle = Circle((x, y), 0.28, facecolor=shade, edgecolor=COLOURS[0], zorder=3)
                circle.set_linewidth(1.4)
                ax.add_patch(circle)
                ax.text(x, y, label, ha="center", va="center", zorder=4)
        ax.set(xlim=(-0.3, 5.0), ylim=(-0.1, 4.7), aspect="equal")
        ax.axis("off")
        ax.set_title(title, loc="left")
    return figure
