"""Wrong answers to the exercises of lesson 03: words of the reason, and the answer that gets it."""

FIRST = "def bytes_at_first(k, size_bytes):\n    return {result}"
EPOCH = "def epoch_s(k, steps, step_s, transfer_s):\n    return {result}"
BETWEEN = "def bytes_between(numbers, rows):\n    return {result}"
DONE = "def done_ms(n):\n    return {result}"
BLAME = """
def blame(r):
    caused, met = {{}}, r.meetings()
    for m in met:
        caused[m.last] = caused.get(m.last, 0) + sum(m.waiting_ns)
    return {result}
"""
ROWS = """
def rows_of(images, epoch, rank, workers):
    order = torch.randperm(images, generator=torch.Generator().manual_seed({seed}))
    return {rows}
"""
EVEN = "order[: images // workers * workers][rank::workers]"
EFFICIENCY = "def efficiency(time_of_one, time_of_k, k, strong):\n    return {result}"
BOTH = """
def bytes_by_data(size, batch):
    return {data}
def bytes_by_columns(size, batch):
    return {columns}
"""
DATA, COLUMNS = "2 * 4 * size**2", "3 * 4 * size * batch"

WRONG = {
    1: [
        ("bytes_at_first(2, 200_000) is 200000: too low", FIRST.format(result="(k - 1) * size_bytes")),
        ("bytes_at_first(2, 200_000) is 800000: too high", FIRST.format(result="2 * k * size_bytes")),
        ("bytes_at_first(3, 200_000) is 400000: too low", FIRST.format(result="2 * size_bytes")),
        ("is no number", "def bytes_at_first(k, size_bytes):\n    print(2 * (k - 1) * size_bytes)"),
    ],
    2: [
        ("epoch_s(2, 80, ...)", EPOCH.format(result="steps * step_s / k")),
        ("epoch_s(1, 80, ...)", EPOCH.format(result="steps / k * (step_s + 2 * transfer_s)")),
        ("epoch_s(4, 80, ...)", EPOCH.format(result="steps * (step_s / k + 2 * (k - 1) * transfer_s)")),
    ],
    3: [
        ("too low", BETWEEN.format(result="4 * numbers")),
        ("too low", BETWEEN.format(result="4 * 2 * numbers")),
        ("too high", BETWEEN.format(result="4 * (2 * numbers + 2 * 10 * rows)")),
        ("too low", BETWEEN.format(result="2 * numbers + 10 * rows")),
    ],
    4: [
        ("done_ms(1) is 70", DONE.format(result="50 + 20")),
        ("done_ms(5) is 70", DONE.format(result="50 + n * (20 / n + 0.1)")),
        ("done_ms(1) is 20.1: too low", DONE.format(result="20 / n + 0.1")),
        ("done_ms(1000) is 50.1: too low", DONE.format(result="50 + 20 / n + 0.1")),
    ],
    5: [
        ("rank 2 was late, and not None", "def blame(r):\n    return None, 0"),
        ("rank 2 was late, and not 1", BLAME.format(result="1, sum(caused.values())")),
        ("the waiting of all", BLAME.format(result="max(caused, key=caused.get), max(met[0].waiting_ns)")),
        ("rank 2 was late, and not 3", BLAME.format(
         result="max(range(4), key=[m.last for m in met].count), sum(caused.values())")),
        ("rank 0 was late, and not 2", BLAME.format(result="2, sum(caused.values())")),
    ],
    6: [
        ("more than once", ROWS.format(seed="epoch", rows="order[: images // workers]")),
        ("more than once", ROWS.format(seed="epoch + rank", rows=EVEN)),
        ("not equally many", ROWS.format(seed="epoch", rows="order[rank::workers]")),
        ("the order of the first", ROWS.format(seed="0", rows=EVEN)),
        ("more than once",
         "def rows_of(images, epoch, rank, workers):\n    return torch.randperm(images)[: images // workers]"),
    ],
    7: [
        ("efficiency(8, 2, 4, True)", EFFICIENCY.format(result="time_of_one / time_of_k")),
        ("efficiency(8, 8, 4, False)", EFFICIENCY.format(result="time_of_one / (k * time_of_k)")),
        ("efficiency(8, 10, 4, False)", EFFICIENCY.format(
         result="k * time_of_k / time_of_one if strong else time_of_k / time_of_one")),
    ],
    8: [
        ("bytes_by_data(100, 7)", BOTH.format(data="4 * size**2", columns=COLUMNS)),
        ("bytes_by_columns(100, 7)", BOTH.format(data=DATA, columns="2 * 4 * size * batch")),
        ("bytes_by_data(100, 7)", BOTH.format(data="2 * size**2", columns="3 * size * batch")),
    ],
}  # fmt: skip
