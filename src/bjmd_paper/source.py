"""A fingerprint of the code that a job runs, so that results follow the code.

Every rule of the workflow has the fingerprint of its script among its parameters, and Snakemake
repeats a job whose parameters changed.  Comments and docstrings do not count.
"""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

OURS = ("bjmd", "bjmd_paper")
NOT_COMPUTING = ("bjmd_paper.frame", "bjmd_paper.failures")
"""How jobs are run and how they fail; a change here changes no result."""
DATA_FILES = (".toml", ".html", ".css", ".js")


def fingerprint(script, *modules):
    """A hash of a script, of some modules, and of everything of their packages that they import.

    Modules that are found by their name when they are needed, such as the methods, must be given.
    """
    packages = {*OURS, *(module.partition(".")[0] for module in modules)}
    digests, imported = _facts(Path(script), package="")
    known = set(NOT_COMPUTING)
    waiting = {*modules, *imported}
    while waiting:
        module = waiting.pop()
        if module in known or module.partition(".")[0] not in packages:
            continue
        known.add(module)
        if path := _path(module):
            in_package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            more, imported = _facts(path, in_package)
            digests = digests | more
            waiting |= imported
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]


@cache
def _path(module):
    """The file of a module, or None if there is no such module; nothing is imported."""
    package, *inner = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    if not inner:
        return Path(spec.origin)
    place = Path(spec.origin).parent.joinpath(*inner)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def _facts(path, package):
    """The hashes of a file and of the data files that it names, and all that it may import."""
    tree = _WithoutProse().visit(ast.parse(path.read_text(encoding="utf-8")))
    contents = [ast.dump(tree).encode()]
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # the module a, or a.b, or both
            module = resolve_name("." * node.level + (node.module or ""), package)
            modules |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant):
            contents += _data(str(node.value), package.partition(".")[0])
    return {hashlib.sha256(content).hexdigest() for content in contents}, modules


def _data(name, package):
    """The contents of the data files of one of our packages with a name, or matching a pattern."""
    if package not in OURS or not name.endswith(DATA_FILES) or name.startswith("/"):
        return []
    return [path.read_bytes() for path in _path(package).parent.rglob(name)]


class _WithoutProse(ast.NodeTransformer):
    def visit_Expr(self, node):
        return None if isinstance(node.value, ast.Constant) else node
