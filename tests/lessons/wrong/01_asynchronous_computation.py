"""Wrong answers to the exercises of lesson 01: words of the reason, and the answer that gets it."""

WAIT = "perfmagic.synchronize(device)"
CLOCK = "time.perf_counter()"
TIMED = """
def seconds_until_done(body):
    {first}
    start = time.perf_counter()
    body()
    {then}
"""
QUEUES = "def two_queues(n, t1, t2, t3):\n    return {result}"
LAZY = "def total(steps):\n    {body}"
FED = """
def feed_bounded(steps, ahead=2):
    marks = deque()
    for i in range(steps):
        {first}
        y = {batch}.to(device, non_blocking=True).sum()
        {then}
"""

WRONG = {
    1: [
        ("before the device is done", TIMED.format(first=WAIT, then="return time.perf_counter() - start")),
        ("before the device is done", TIMED.format(first=WAIT, then=f"end = {CLOCK}; {WAIT}; return end - start")),
        ("when the clock started: it returns 110 ms", TIMED.format(
            first="pass", then=f"{WAIT}; return {CLOCK} - start")),
        ("another unit than seconds", TIMED.format(first=WAIT, then=f"{WAIT}; return 1e3 * ({CLOCK} - start)")),
        ("do not run once", TIMED.format(first=WAIT, then=f"body(); {WAIT}; return {CLOCK} - start")),
    ],
    2: [
        ("n=100, t1=5 µs, t2=8 µs, t3=8 µs is", QUEUES.format(result="t1 + (n - 1) * max(t1, t2) + t2 + t3")),
        ("t2=3 µs, t3=8 µs is 0.000255: too low", QUEUES.format(result="(t1 + (n - 1) * max(t1, t2) + t2 + t3) / 2")),
        ("too low", QUEUES.format(result="t1 + (n // 2 - 1) * max(t1, t2) + t2 + t3")),
        ("n=2, t1=5 µs", QUEUES.format(result="2 * t1 + n // 2 * max(2 * t1, t2) + t2 + t3")),
        ("is no number", QUEUES.format(result="[n * t1 + t2 + t3, n * (t1 + t2 + t3)]")),
    ],
    3: [
        ("Python waits for a device", LAZY.format(
         body="return sum(x.mm(x).sum().item() for _ in range(steps))")),
        ("Python waits for a device", LAZY.format(
         body="results = [x.mm(x).sum() for _ in range(steps)]\n    return sum(r.item() for r in results)")),
        ("mm runs 1 time, not 10", LAZY.format(body="return steps * x.mm(x).sum()")),
        ("several numbers", LAZY.format(body="return sum(x.mm(x) for _ in range(steps))")),
        ("the sum is 64", LAZY.format(
         body="for _ in range(steps):\n        result = x.mm(x).sum()\n    return result")),
    ],
    4: [
        ("a stream runs one op after the other, is 10.0", "def earliest_starts(durations):\n    return durations"),
        ("number 1 of the starts", "def earliest_starts(durations):\n    return list(np.cumsum(durations))"),
        ("number 3 of the starts", "def earliest_starts(durations):\n    return [0, *durations[:-1]]"),
        ("is no list of numbers", "def earliest_starts(durations):\n    return sum(durations)"),
        ("has 2 of 3 numbers", "def earliest_starts(durations):\n    return [0, durations[0]]"),
    ],
    5: [
        ("7 batches ahead", FED.format(first="pass", batch="data.pin_memory()", then="pass")),
        ("Python waits for each batch", FED.format(first="pass", batch="data.pin_memory()",
         then="perfmagic.synchronize(device)")),
        ("not pinned", FED.format(first="pass", batch="data.clone()", then="pass")),
        ("not eight batches", FED.format(first="if i % 2: continue", batch="data.pin_memory()", then="pass")),
    ],
}  # fmt: skip

RIGHT = {
    1: [
        TIMED.format(first=WAIT, then=f"{WAIT}\n    return time.perf_counter() - start").replace("perf_counter", "time")
    ]
}
