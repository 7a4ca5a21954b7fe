"""Cases in processes of their own, a few at a time, so that a crash or a hang is seen and costs one case."""

import os
import signal
import tempfile
import traceback
from collections import Counter
from pathlib import Path

HUNG_CPU, HUNG_WALL = 60, 900
"""Seconds of processor time, and by the clock, after which a case hangs."""


def run(case, numbers, *, n_jobs=2, block=200):
    """Call case(number) -> (kind, [sentence, ...]) for every number; counts by kind, and (kind, number, sentence).

    The kind of what crashed or hung is not known, so it is "?".
    """
    counts: Counter = Counter()
    wrong, running = [], {}
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
                counts[kind] += word == "end"
                if word == "wrong":
                    wrong.append((kind, int(number), text[0]))
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "an exit"
                wrong.append(("?", part[max(begun, 1) - 1], f"ended the process by {name}"))
                if part[max(begun, 1) :]:
                    waiting.insert(0, part[max(begun, 1) :])
    return counts, sorted(wrong)


def _begin(case, numbers, log):
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        with log.open("a", buffering=1) as file:
            for number in numbers:
                file.write(f"begin\t?\t{number}\n")
                signal.setitimer(signal.ITIMER_PROF, HUNG_CPU)
                signal.alarm(HUNG_WALL)
                try:
                    kind, sentences = case(number)
                except Exception:  # what no one foresaw is what is looked for here
                    kind, sentences = "?", [" ".join(traceback.format_exc().split("\n")[-6:])]
                for sentence in sentences:
                    file.write(f"wrong\t{kind}\t{number}\t{' '.join(sentence.split())}\n")
                file.write(f"end\t{kind}\t{number}\n")
        code = 0
    finally:
        os._exit(code)
