"""Tables as text."""


def markdown(table):
    """A table of text cells in Markdown."""
    lines = [table.columns, ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
