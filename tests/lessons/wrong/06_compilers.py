"""Wrong answers to the exercises of lesson 06: words of the reason, and the answer that gets it."""

ROWS = "def smallest_batch():\n    return {}"
WHERE = "def decides_by_where(t):\n    {}"
REGION = "def in_one_region(t):\n    {}"
FILE = "def file_bytes():\n    return {}"
PAYS = "def pays(trial_s, saved_s, calls):\n    return {}"
WORKERS = "def workers_for(picture_s, n, step_s):\n    return {}"

WRONG = {
    1: [("too high", "my_answer = 1"), ("too high", "my_answer = 3"), ("no number", 'my_answer = "none"')],
    2: [
        *[("calls for each row", ROWS.format(n)) for n in (1, 2, 16)],
        ("a smaller batch does it", ROWS.format(4096)),
        ("10 is no power of two", ROWS.format(10)),
        ("None is no power of two", "def smallest_batch():\n    2"),
    ],
    3: [
        ("a trace makes", WHERE.format("return t * 2 if t.sum() > 0 else t")),
        ("a trace makes", WHERE.format("return torch.where(t > 0, t, t * 2)")),
        ("makes [6.0, -1.0, -1.0] of [3.0, -1.0, -1.0]", WHERE.format("return torch.where(t > 0, t * 2, t)")),
        ("a trace makes", WHERE.format("return t * (1 + int(t.sum() > 0))")),
        ("a trace makes", WHERE.format("return torch.where(torch.tensor(bool(t.sum() > 0)), t * 2, t)")),
    ],
    4: [
        ("it has 2 regions", REGION.format('t = gelu(t)\n    print("halfway")\n    return t.relu() * 2')),
        ("even if no operator does", REGION.format('print("halfway")\n    return gelu(t).relu() * 2')),
        ("does not say halfway", REGION.format("return gelu(t).relu() * 2")),
        ("compiled, it does not say", REGION.format(
            'if not torch.compiler.is_compiling():\n        print("halfway")\n    return gelu(t).relu() * 2')),
        ("the result is another", REGION.format('print("halfway")\n    return gelu(t)')),
        ("the result is another", REGION.format('print("halfway")')),
    ],
    5: [
        ("a library's kernel", 'wins_most = "product"'),
        ("nothing to fuse", 'wins_most = "one"'),
        ("it is one kernel", 'wins_most = "sort"'),
        ("none of the four", 'wins_most = "all"'),
    ],
    6: [
        ("too low", FILE.format("sum(i * o + o for i, o in ((512, 256), (256, 128), (128, 2)))")),
        ("too low", FILE.format("4 * (512 + 256 + 128 + 2)")),
        ("too high", FILE.format("8 * sum(i * o + o for i, o in ((512, 256), (256, 128), (128, 2)))")),
    ],
    7: [
        ("trying costs more", PAYS.format("any(n * saved_s > trial_s / 10 for n in calls.values())")),
        ("100 shapes, 10 calls of each", PAYS.format("sum(calls.values()) * saved_s > trial_s")),
        ("a shape with 1000 calls and one with 1", PAYS.format("all(n * saved_s > trial_s for n in calls.values())")),
        ("a shape with 60 calls and one with 1", PAYS.format("any(n * saved_s > trial_s for n in calls.values())")),
    ],
    8: [
        ("the device waits", WORKERS.format("round(picture_s / step_s + 0.5)")),
        ("the device waits", WORKERS.format("int(picture_s * n // step_s)")),
        ("fewer workers do it", WORKERS.format("int(picture_s * n / step_s) + 1")),
        ("no whole number", WORKERS.format("picture_s * n / step_s")),
        ("a step of 7 ms: the device waits", WORKERS.format("max(1, round(picture_s * n / step_s))")),
    ],
}  # fmt: skip

RIGHT = {8: [WORKERS.format("-(-picture_s * n // step_s)")]}  # besides the solution
