"""Cells that give the same with a magic as without one, each one or several in a row."""

ALIKE = {
    "a variable stays": ["x = 41 + 1\ndef f():\n    return x", "f()"],
    "a variable can be deleted": ["x = 1", "del x", "'x' in globals()"],
    "the last value is kept": ["'RES' + 'ULT'", "_"],
    "the value of None shows nothing": ["6 * 7", "None", "_"],
    "a cell that ends in a statement has no value": ["if True:\n    5"],
    "a trailing semicolon suppresses the value": ["1 + 1", "6 * 7;", "_"],
    "print and value": ["print('hello')\n5"],
    "print without an end of line": ["print('hello', end='')"],
    "await": ["import asyncio\nx = await asyncio.sleep(0, 41)\nx + 1"],
    "async for and async with": [
        "from contextlib import aclosing\nasync def three():\n    for i in range(3):\n        yield i",
        "got = []\nasync with aclosing(three()) as t:\n    async for i in t:\n        got.append(i)\ngot",
    ],
    "magics and commands": ["more = %sx echo 1\nwords = !echo hello\nlist(more), list(words)"],
    "future imports": ["from __future__ import annotations\ndef f(x: NotThere): ...\nf.__annotations__"],
    "a future import below a docstring": [
        '"""words"""\nfrom __future__ import annotations\ndef f(x: NotThere): ...\nf.__annotations__'
    ],
    "a docstring": ["'only words'"],
    "text that looks like a magic": ['s = """\n%%ranks\n"""\ns'],
    "triple-quoted text": ['s = """a\n    b\n\tc"""\ns'],
    "Chinese": ["数 = '队列'\n数"],
    "a class and a comprehension": ["n = 3\nclass A:\n    size = n\n[i * n for i in range(A.size)]"],
    "a jump inside its loop": ["for i in range(9):\n    if i == 3: break\ni"],
    "a decorated function": ["import functools\n@functools.lru_cache\ndef f(): return 7\nf()"],
    "an assignment expression": ["(y := 5) + 1", "y"],
    "a question mark's own words": ["x = 'what?'\nx"],
    "globals are the module's": ["__name__, globals() is get_ipython().user_ns"],
}
