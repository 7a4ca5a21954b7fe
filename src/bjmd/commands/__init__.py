"""One module per subcommand of `bjmd`: its help, `add_arguments(parser)` and `run(arguments)`."""
