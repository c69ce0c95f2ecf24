"""Wrong answers to the exercises of lesson 07: words of the reason, and the answer that gets it."""

LINE = "def line(small, large):\n    {}"
ROW = "def bytes_per_s(numbers_a_row):\n    return {}"
PLACES = "def places_of(n):\n    return [{} for thread in range(n)]"
HOURS = "def hours(images, bytes_each, bytes_per_s, seconds_to_find):\n    return {}"
SHARE = "def share_of_copies(bytes_a_number):\n    copy_s = 64 * 224 * 224 * 3 * {}\n    return {}"
MESSAGES = "def most_messages():\n    return {}"
KEPT = "def may_be_kept(dtype, largest, error):\n    info = torch.finfo(dtype)\n    return {}"
MANY = "def how_many():\n    return {}"
RIDGE = "def intensity(n):\n    return {}\ndef smallest_n():\n    return {}"

WRONG = {
    1: [
        ("the bandwidth is", LINE.format("return small[1], large[0] / large[1]")),
        ("the latency is", LINE.format("return small[1], (large[0] - small[0]) / (large[1] - small[1])")),
        ("the bandwidth is", LINE.format("return 2e-6, (large[1] - small[1]) / (large[0] - small[0])")),
        ("the latency is 0", LINE.format("return 0, (large[0] - small[0]) / (large[1] - small[1])")),
    ],
    2: [
        ("with 4 numbers", ROW.format("4 * numbers_a_row / (100e-9 * numbers_a_row)")),
        ("with 4 numbers", ROW.format("numbers_a_row / (100e-9 + 0.2e-9 * (numbers_a_row - 1))")),
        ("with 256 numbers", ROW.format("4 * numbers_a_row / 100.6e-9")),
        ("with 4 numbers", ROW.format("4 / 0.2e-9")),
    ],
    3: [
        ("some counters share a line", PLACES.format("32 * thread")),
        ("longer than a line", PLACES.format("128 * thread")),
        ("multiple of 8", PLACES.format("63 * thread")),
        ("before the start", PLACES.format("-64 * thread")),
        ("1 places for 2 threads", "def places_of(n):\n    return [64 * n]"),
    ],
    4: [
        ("the hard disk", HOURS.format("images * bytes_each / bytes_per_s / 3600")),
        ("the hard disk", HOURS.format("images * bytes_each / bytes_per_s / 3600 + seconds_to_find")),
        ("too high", HOURS.format("images * (bytes_each / bytes_per_s + seconds_to_find)")),
        ("the hard disk", HOURS.format("images * seconds_to_find / 3600")),
    ],
    5: [
        ("with 8 bits", SHARE.format("bytes_a_number / 16e9", "copy_s / 20e-3")),
        ("with 32 bits", SHARE.format("1 / 16e9", "copy_s / (copy_s + 20e-3)")),
        ("with 8 bits", SHARE.format("8 * bytes_a_number / 16e9", "copy_s / (copy_s + 20e-3)")),
        ("with 8 bits", SHARE.format("bytes_a_number / 16e9", "100 * copy_s / (copy_s + 20e-3)")),
    ],
    6: [
        ("the waits of more messages are within", MESSAGES.format("20")),
        ("messages take more than a tenth", MESSAGES.format("round(100e6 / 1.25e9 / 50e-6)")),
        ("messages take more than a tenth", MESSAGES.format("161")),
        ("160.5 is no whole number", MESSAGES.format("160.5")),
    ],
    7: [
        ("error 0.001: it may not be kept", KEPT.format("largest <= info.max")),
        ("it may not be kept", KEPT.format("info.eps / 2 <= error")),
        ("bfloat16, numbers up to 100000, error 0.005: it may be kept",
         KEPT.format("largest <= info.max and info.eps <= error")),
        ("it may not be kept", KEPT.format("info.bits >= 16")),
    ],
    8: [
        ("the number of lines is", MANY.format("(75e-9 / 80e-6, 10e-3 / 150e-3)")),
        ("the number of lines is", MANY.format("(80e-6 / 46e-9, 15)")),
        ("the number of reads is", MANY.format("(80e-6 / 75e-9, 150e-3 / 120e-6)")),
    ],
    9: [
        ("number 1 of the intensities", RIDGE.format("2 * n**3 / (3 * n**2)", "58")),
        ("number 1 of the intensities", RIDGE.format("n**3 / (3 * n**2 * 4)", "58")),
        ("left of the ridge", RIDGE.format("n / 6", "57")),
        ("a smaller n", RIDGE.format("n / 6", "64")),
        ("no whole number", RIDGE.format("n / 6", "6 * 19.5 / 2.04")),
    ],
}  # fmt: skip

RIGHT = {6: [MESSAGES.format("0.1 * (100e6 / 1.25e9) / 50e-6")]}  # besides the solution
