"""One file a subcommand of `bjmd`: its docstring, `add_arguments(parser)` and `run(arguments)`;
cli.py lists them.
"""
