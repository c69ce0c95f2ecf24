"""Random programs of calls, loops, exceptions, generators, recursion and threads, as text: without torch or numpy.

Every function takes how deep it may still call, so each program ends. `launch()` and `Stop` are the runner's: launch
raises Stop when a program has launched enough. No generator yields in a try or a with: what those launch when it is
closed early, by an exception that passes or by the garbage collector, is on a line that Python tells no tracer of.
"""

import random
import textwrap

N_FUNCTIONS = 5  # the odd ones are generators

HEAD = """
import contextlib, threading

class Known(Exception):
    pass

def quiet(function, n):
    try:
        function(n)
    except (Known, Stop):
        launch()

@contextlib.contextmanager
def managed():
    launch()
    try:
        yield
    finally:
        launch()
"""


def program(choose: random.Random, *, threads: bool) -> tuple[str, str]:
    """The text of the functions, and that of the cell that calls them."""
    functions = "".join(_function(choose, number, threads) for number in range(N_FUNCTIONS))
    lines = ["try:", *_indented(_block(choose, 0, None, threads)), "except (Known, Stop):", "    pass"]
    return HEAD + functions, "n = 3\n" + "\n".join(lines) + "\n"


def _function(choose: random.Random, number: int, threads: bool) -> str:
    yields = number if number % 2 else None
    body = ["if n <= 0:", "    launch()", "    return", *_block(choose, 0, yields, threads)]
    if yields is not None:
        body += ["yield n"]
    return "\n".join([f"def f{number}(n):", *_indented(body)]) + "\n"


def _block(choose: random.Random, depth: int, yields: int | None, threads: bool) -> list[str]:
    statements = []
    for _ in range(choose.randint(1, 3)):
        statements += _statement(choose, depth, yields, threads)
    return statements


def _statement(choose: random.Random, depth: int, yields: int | None, threads: bool) -> list[str]:
    kinds = ["launch", "call", "lines", "generator", "abandon", "comprehension", "lambda", "raise"]
    kinds += ["yield"] * (yields is not None) + ["thread"] * threads
    if depth < 2:
        kinds += ["for", "try", "with", "if"]
    return _text(choose, choose.choice(kinds), depth, yields, threads)


def _text(choose: random.Random, kind: str, depth: int, yields: int | None, threads: bool) -> list[str]:
    called = choose.randrange(0, N_FUNCTIONS, 2)
    iterated = choose.randrange(1, N_FUNCTIONS, 2)

    def block() -> list[str]:
        inner = None if kind in ("try", "with") else yields
        return _indented(_block(choose, depth + 1, inner, threads))

    simple = {
        "launch": ["launch()"],
        "call": [f"f{called}(n - 1)"],
        "lines": ["(launch(),", f" f{called}(n - 1),", " launch())"],
        "abandon": [f"g = f{iterated}(n - 1)", "next(g, None)", "g = launch()"],
        "comprehension": ["a = [launch() for _ in range(2)]"],
        "lambda": [f"(lambda k: (launch(), f{called}(k)))(n - 1)"],
        "raise": ["if n == 2:", "    raise Known(n)"],
        "yield": ["yield launch()"],
        "thread": [f"t = threading.Thread(target=quiet, args=(f{called}, n - 1))", "t.start()", "t.join()"],
    }
    if kind in simple:
        return simple[kind]
    if kind == "generator":
        return [f"for _ in f{iterated}(n - 1):", *(["    launch()"] if depth == 2 else block())]
    if kind == "try":
        return ["try:", *block(), "except Known:", *block(), "finally:", *block()]
    return [{"for": "for i in range(2):", "with": "with managed():", "if": "if n % 2:"}[kind], *block()]


def _indented(lines: list[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "    ").split("\n")
