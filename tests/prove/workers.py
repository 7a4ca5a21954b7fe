"""Cases in processes of their own, many in each, so that a crash or a hang is seen and costs one
case.
"""

import os
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from threadpoolctl import threadpool_limits

from bjmd.inference import projection, registry

HUNG_CPU = 60
HUNG_WALL = 900
"""Seconds of processor time, and by the clock, after which a case hangs."""
MOST_MEMORY = 6 * 2**30
"""What no small case needs."""


def run(case, numbers, *, n_jobs=2, block=2000):
    """Call case(number) -> (kind, [sentence, ...]) for every number.

    Returns, by kind, how many there were and the seconds of processor time they took, and (kind,
    number, sentence) for what went wrong.  The kind of what crashed or hung is not known, so it is
    "?".  A block is large because its process begins cold: what it imports, and the compiled code
    that it loads, take as long as hundreds of cases.
    """
    counts: Counter = Counter()
    seconds: Counter = Counter()
    wrong = []
    running = {}
    waiting = [numbers[first : first + block] for first in range(0, len(numbers), block)]
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                part = waiting.pop(0)
                log = Path(folder, f"{part[0]}-{len(part)}")
                running[_begin(case, part, log)] = part, log
            process, status = os.wait()
            part, log = running.pop(process)
            lines = log.read_text().splitlines() if log.exists() else []
            begun = 0
            for line in lines:
                word, kind, number, *text = line.split("\t", 3)
                begun += word == "begin"
                if word == "end":
                    counts[kind] += 1
                    seconds[kind] += float(text[0])
                elif word == "wrong":
                    wrong.append((kind, int(number), text[0]))
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                name = (
                    signal.Signals(os.WTERMSIG(status)).name
                    if os.WIFSIGNALED(status)
                    else "an exit"
                )
                wrong.append(("?", part[max(begun, 1) - 1], f"ended the process by {name}"))
                if part[max(begun, 1) :]:
                    waiting.insert(0, part[max(begun, 1) :])
    return counts, seconds, sorted(wrong)


def _begin(case, numbers, log):
    process = os.fork()
    if process:
        return process
    code = 1
    # once a process instead of once a fit, where to look for the libraries takes as long as a few
    # sweeps
    threadpool_limits(1)
    registry.threadpool_limits = projection.threadpool_limits = lambda _: nullcontext()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        with log.open("a", buffering=1) as file:
            for number in numbers:
                file.write(f"begin\t?\t{number}\n")
                signal.setitimer(signal.ITIMER_PROF, HUNG_CPU)
                signal.alarm(HUNG_WALL)
                started = time.process_time()
                try:
                    kind, sentences = case(number)
                except Exception:  # what no one foresaw is what is looked for here
                    kind = "?"
                    sentences = [" ".join(traceback.format_exc().split("\n")[-6:])]
                for sentence in sentences:
                    file.write(f"wrong\t{kind}\t{number}\t{' '.join(sentence.split())}\n")
                file.write(f"end\t{kind}\t{number}\t{time.process_time() - started}\n")
        code = 0
    finally:
        os._exit(code)
