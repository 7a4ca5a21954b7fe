"""scikit-learn without its ConvergenceWarning, in threads too.

Python's warning filters belong to the whole process, so `warnings.catch_warnings` in two threads at
once may leave them changed.  Here the first thread to enter sets the filter and the last one to
leave restores what was there.
"""

import threading
import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

_lock = threading.Lock()
_inside = 0
_saved = warnings.catch_warnings()


@contextmanager
def no_convergence_warnings():
    global _inside, _saved
    with _lock:
        _inside += 1
        if _inside == 1:
            _saved = warnings.catch_warnings()
            _saved.__enter__()
            warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _saved.__exit__(None, None, None)
