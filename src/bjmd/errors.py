"""The two ways in which bjmd says no."""


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do."""

    def __str__(self) -> str:
        text = super().__str__()  # which may quote a value of any length
        return text if len(text) < 2000 else f"{text[:900]} [...] {text[-900:]}"


class FitError(RuntimeError):
    """A fit broke down numerically; nothing it computed should be used."""
