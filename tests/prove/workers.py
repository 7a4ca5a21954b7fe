"""Cases in processes of their own, so that a crash or a hang is noticed and costs one case."""

import os
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from threadpoolctl import threadpool_limits

HUNG_CPU = 60
HUNG_WALL = 900
"""Seconds of processor time, and by the clock, after which a case hangs."""
MOST_MEMORY = 6 * 2**30
"""Bytes that no small case needs."""
BLOCK = 2000
"""Cases a process: to import and load compiled code takes as long as hundreds of them."""


def run(case, numbers, n_jobs):
    """Call case(number) -> (kind, [sentence, ...]) for every number.

    Returns, by kind, how many there were and the seconds of processor time they took, and (kind,
    number, sentence) for what went wrong.  The kind of what crashed or hung is "?".
    """
    counts: Counter = Counter()
    seconds: Counter = Counter()
    wrong = []
    running = {}
    waiting = [numbers[first : first + BLOCK] for first in range(0, len(numbers), BLOCK)]
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                part = waiting.pop(0)
                log = Path(folder, f"{part[0]}-{len(part)}")
                log.touch()
                running[_begin(case, part, log)] = part, log
            process, status = os.wait()
            part, log = running.pop(process)
            n_ended = 0
            for line in log.read_text().splitlines():
                kind, number, cost, *sentences = line.split("\t")
                counts[kind] += 1
                seconds[kind] += float(cost)
                wrong += [(kind, int(number), sentence) for sentence in sentences]
                n_ended += 1
            if n_ended < len(part):
                wrong.append(("?", part[n_ended], f"ended its process with status {status}"))
                if part[n_ended + 1 :]:
                    waiting.insert(0, part[n_ended + 1 :])
    return counts, seconds, sorted(wrong)


def _begin(case, numbers, log):
    """Fork a process that writes a line for every case: kind, number, seconds, sentences."""
    process = os.fork()
    if process:
        return process
    threadpool_limits(1)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with log.open("a", buffering=1) as file:
        for number in numbers:
            signal.setitimer(signal.ITIMER_PROF, HUNG_CPU)
            signal.alarm(HUNG_WALL)
            started = time.process_time()
            try:
                kind, sentences = case(number)
            except Exception:  # what no one foresaw is what is looked for here
                kind = "?"
                sentences = [traceback.format_exc()[-500:]]
            cost = str(time.process_time() - started)
            words = [" ".join(sentence.split()) for sentence in sentences]
            file.write("\t".join([kind, str(number), cost, *words]) + "\n")
    os._exit(0)
