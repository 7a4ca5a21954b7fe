"""The first fit after an installation waits for the compiler: say so, and do not count that as time
of the fit.
"""

import gc
import logging
import threading
import time

from numba.core import event

log = logging.getLogger(__name__)

OURS = ("bjmd", "bjmd.numerics", "bjmd_paper")


class Compilation(event.Listener):
    """Counts the processor time that compiling our code takes in this thread, while it is
    installed.
    """

    said = False

    def __init__(self):
        self.seconds = 0.0
        self._thread = threading.get_ident()
        self._begun = []
        self._paused = False

    def installed(self):
        return event.install_listener("numba:compile", self)

    def on_start(self, event):
        if self._is_ours(event):
            if not Compilation.said:
                log.info("compiling, once after an installation; this takes about 15 s")
            Compilation.said = True
            if not self._begun and gc.isenabled():
                gc.disable()  # the compiler makes millions of objects and hardly any garbage
                self._paused = True
            self._begun.append(time.thread_time())

    def on_end(self, event):
        if self._is_ours(event):
            begun = self._begun.pop()
            if not self._begun:  # one function compiles another
                self.seconds += time.thread_time() - begun
                if self._paused:
                    gc.enable()

    def _is_ours(self, event):
        module = event.data["dispatcher"].py_func.__module__
        return threading.get_ident() == self._thread and module.split(".")[0] in OURS
