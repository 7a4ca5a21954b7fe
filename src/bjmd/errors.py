"""The two ways in which bjmd says no."""


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one sentence that says what, where and what to do."""


class FitError(RuntimeError):
    """A fit broke down numerically; nothing it computed should be used."""
