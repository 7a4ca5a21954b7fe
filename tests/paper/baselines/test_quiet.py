import threading
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from bjmd_paper.baselines.quiet import no_convergence_warnings


def warn():
    warnings.warn("not there yet", ConvergenceWarning, stacklevel=1)


def test_only_convergence_warnings_are_silent_and_only_inside():
    with no_convergence_warnings():
        warn()
        with pytest.raises(UserWarning, match="another"):
            warnings.warn("another", UserWarning, stacklevel=1)
    with pytest.raises(ConvergenceWarning):
        warn()


def test_threads_that_overlap_leave_the_filters_as_they_were():
    """The first to enter leaves first: with `catch_warnings` the second would warn, then restore
    the first's filter.
    """
    before = list(warnings.filters)
    first_inside = threading.Event()
    second_inside = threading.Event()
    first_left = threading.Event()
    failures = []

    def first():
        with no_convergence_warnings():
            first_inside.set()
            second_inside.wait(5)
        first_left.set()

    def second():
        first_inside.wait(5)
        with no_convergence_warnings():
            second_inside.set()
            first_left.wait(5)
            try:
                warn()
            except ConvergenceWarning as warning:
                failures.append(warning)

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert list(warnings.filters) == before
