"""Write docs/api.md from the docstrings.

    python docs/make_api.py

A name that joins the public interface is one word in PUBLIC.
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import bjmd
from bjmd.fits import registry

PAGE = Path(__file__).parent / "api.md"

PUBLIC = ("BJMD", "Sources", "fit", "method_names", "select", "Decomposition")
"""The names that are promised, most wanted first."""

ANNDATA = ("bjmd.tl", "bjmd.pl")
"""The modules that are promised as a whole."""

MODULES = (
    "bjmd.fits.posterior",
    "bjmd.fits.restarts",
    "bjmd.fits.projection",
    "bjmd.fits.check",
    "bjmd.fits.number_of_components",
    "bjmd.fits.matching",
    "bjmd.fits.storage",
    "bjmd.data.alignment",
    "bjmd.data.preparation",
    "bjmd.files.readers",
    "bjmd.files.outputs",
    "bjmd_paper.metric",
    "bjmd.errors",
)
"""What the pages in docs/ use beyond the public names."""

INTRODUCTION = """\
# The Python interface

`python docs/make_api.py` writes this page from the docstrings; do not edit it by hand.

The six names below, and `bjmd.tl` and `bjmd.pl` for AnnData, are the public interface. Most people only need `BJMD`, a scikit-learn estimator with samples in
rows. Everything else has **features in rows and samples in columns**, as in the paper. Start with the
[tutorial](tutorial.md); [methods.md](methods.md) describes the methods, [options.md](options.md) says how to choose.
"""

BEHIND = """\
## Behind them

The parts of which the estimator, the command and the workflow are made, as far as other pages use them. They are not
promised: names and arguments may change from one version to the next.
"""


def page():
    parts = [INTRODUCTION, "## The public names\n"]
    for name in PUBLIC:
        parts += _described(f"bjmd.{name}", getattr(bjmd, name), "###")
        if name == "fit":
            parts += _options_table()
    for name in ANNDATA:
        parts += _module(importlib.import_module(name))
    parts.append(BEHIND)
    for name in MODULES:
        parts += _module(importlib.import_module(name))
    return "\n".join(parts)


def _module(module):
    yield f"### {module.__name__}\n"
    yield f"{_prose(module.__doc__)}\n"
    own = [
        thing
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", None) == module.__name__
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and thing not in [getattr(bjmd, public) for public in PUBLIC]
    ]
    for thing in own:
        yield from _described(f"{module.__name__}.{thing.__name__}", thing)


def _options_table():
    yield "Options of the methods, with their defaults:\n"
    yield "| method | options |\n|---|---|"
    for method in registry.METHODS.values():
        options = ", ".join(f"`{name}={value!r}`" for name, value in method.options().items())
        yield f"| `{method.name}` | {options or 'none'} |"
    yield ""


def _described(name, thing, heading="####"):
    """Heading, signature, docstring; for a class also its documented attributes and its public methods."""
    yield f"{heading} {name}\n"
    yield f"```text\n{_signature(name, thing)}\n```\n"
    yield f"{_prose(_docstring(thing))}\n"
    if not inspect.isclass(thing):
        return
    attributes = [f"- `{attribute}`: {_escaped(text)}" for attribute, text in _documented_fields(thing)]
    if attributes:
        yield "\n".join(attributes) + "\n"
    for of, method in _public_methods(thing):
        if isinstance(method, property):
            yield f"- **`{of}`**: {_inline(_docstring(method.fget))}\n"
        else:
            yield f"- **`{_signature(of, method)}`**\n"
            yield textwrap.indent(_prose(_docstring(method)), "  ") + "\n"


def _public_methods(cls):
    """(name, function or property) of what the class and its bases in bjmd define, and say something about."""
    found = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            function = value.fget if isinstance(value, property) else value
            ours = inspect.isfunction(function) and function.__module__.startswith("bjmd")
            if ours and not name.startswith("_") and function.__doc__:
                found.setdefault(name, value)
    return found.items()


def _signature(name, thing):
    """Without annotations, which Python versions print in different ways; folded where it is long."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_on_hyphens=False))


def _docstring(thing):
    text = inspect.getdoc(thing) or ""
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else text  # what dataclass writes by itself


def _documented_fields(cls):
    """(name, docstring) of fields that a string follows."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield field.target.id, inspect.cleandoc(text.value.value)


def _prose(docstring):
    """Plain text as Markdown: paragraphs, lists of parameters, and the rest as it stands."""
    blocks = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "").rstrip()):
        lines = block.splitlines()
        if len(lines) > 1 and re.fullmatch("-+", lines[1]):
            blocks.append(f"**{lines[0]}**\n\n{_items(lines[2:])}")
        elif any(re.search(r"^ |[^.:;\s]  +\S", line) for line in lines):  # a formula, an example or a table
            if blocks and blocks[-1].endswith("```"):
                blocks[-1] = f"{blocks[-1].removesuffix('```')}\n{block}\n```"
            else:
                blocks.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            blocks.append(_escaped(block))
    return "\n\n".join(blocks)


def _items(lines):
    """`name : text` with indented continuations becomes a list."""
    items = []
    for line in lines:
        if line.startswith(" "):
            items[-1] += f"\n  {_escaped(line.strip())}"
        else:
            name, _, text = line.partition(" : ")
            items.append(f"- `{name}`: {_escaped(text)}")
    return "\n".join(items)


def _inline(text):
    return _escaped(" ".join(text.split()))


def _escaped(text):
    """What Markdown would take for emphasis, for HTML or for a list."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"[*<]|(?<!\w)_|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return re.sub(r"^(?=[-+#>] )", r"\\", "".join(parts), flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
