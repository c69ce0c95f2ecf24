"""Wrong answers to the exercises of lesson 02: words of the reason, and the answer that gets it."""

SUMS = "def sums(xs):\n    {body}"
RULE = "def rule(n, product_s, copy_s):\n    return {result}"
FETCH = """
def prefetched(loader):
    main, batches = module.current_stream(devs[0]), iter(loader)
    def fetch():
        batch = next(batches, None)
        if batch is not None:
            with module.stream(copies):
                return batch.to(devs[0], non_blocking=True)
    coming = fetch()
    while coming is not None:
        {first}
        current, coming = coming, fetch()
        {then}
        yield current
        {last}
"""
KEEP, READY = "current.record_stream(main)", "main.wait_stream(copies)"
KEEP_ALL = FETCH.format(first=READY, then="all_of_them.append(current)", last="pass").replace(
    "coming =", "all_of_them, coming = [],", 1
)
UP_FRONT = """
def prefetched(loader):
    main, batches = module.current_stream(devs[0]), []
    with module.stream(copies):
        for batch in loader:
            batches.append((batch.to(devs[0], non_blocking=True), copies.record_event()))
    for batch, there in batches:
        main.wait_event(there)
        yield batch
"""
TURNS = """
def prefetched(loader):
    for batch in loader:
        with module.stream(copies):
            current = batch.to(devs[0], non_blocking=True)
        {wait}
        yield current
"""
CHAINS = """
def total():
    main, ends = module.current_stream(devs[0]), []
    for stream in streams:
        {first}
        with module.stream(stream):
            ends.append(chain())
    for stream in streams:
        {last}
    return sum(ends)
"""
MEANS = """
@torch.no_grad()
def means(batches):
    q = []
    for b in batches:
        {each}
    return {result}
"""
SEND = """
def send_during():
    main, sent, handles = module.current_stream(devs[0]), {{}}, []
    def send(p):
        {first}
        with module.stream({stream}):
            sent[p] = p.grad.to("cpu", non_blocking=True)
    for p in stack.parameters():
        handles.append(p.register_post_accumulate_grad_hook(send))
    {before}
    stack(batch).sum().backward()
    {last}
    return {result}
"""
REMOVE = "[handle.remove() for handle in handles]"
BEHIND, SENT = "sender.wait_stream(module.current_stream(devs[0]))", "[sent[p] for p in stack.parameters()]"
BOTH = """
def there_and_back():
    main, side = module.current_stream(devs[0]), streams[0]
    p = x.mm(x)
    {first}
    with module.stream(side):
        q = p.mm(p)
    {then}
    return {result}
"""
MAIN, SIDE = "main.wait_stream(side)", "side.wait_stream(main)"

WRONG = {
    1: [
        ("the devices take turns", SUMS.format(body="return [float(run(x)[-1].sum()) for x in xs]")),
        ("mm runs 2 times, not 100", SUMS.format(body="return [x.mm(x).sum().item() for x in xs]")),
        ("number 1 of the answer", SUMS.format(body="return [run(x)[0].mean().item() for x in xs]")),
        ("number 1 of the answer is no number", SUMS.format(body="return [run(x)[-1].sum() for x in xs]")),
        ("no list of numbers", SUMS.format(body="print([run(x)[-1].sum() for x in xs])")),
    ],
    2: [
        ("number 1 of the answer", RULE.format(result="n * product_s, n * product_s")),
        ("number 2 of the answer", RULE.format(result="n * (product_s + copy_s), n * product_s")),
        ("number 2 of the answer", RULE.format(result="n * (product_s + copy_s), n * max(product_s, copy_s)")),
        ("number 2 of the answer", RULE.format(result="n * (product_s + copy_s), n * product_s + copy_s")),
    ],
    3: [
        ("a wait is missing", FETCH.format(first="pass", then="pass", last=KEEP)),
        ("a wait is missing", FETCH.format(first="copies.wait_stream(main)", then="pass", last=KEEP)),
        ("Python waits for a device", FETCH.format(first="copies.synchronize()", then="pass", last=KEEP)),
        ("batch 1 may be overwritten", FETCH.format(first=READY, then="pass", last="pass")),
        ("batch 1 may be overwritten", FETCH.format(first=READY, then="pass", last="current.record_stream(copies)")),
        ("batch 1 may be overwritten", FETCH.format(first=READY, then="pass", last="x.record_stream(main)")),
        ("product 1 also waits for the copy of the next", FETCH.format(first="pass", then=READY, last=KEEP)),
        ("8 batches on the device, not 2", UP_FRONT),
        ("0 % of the copies run beside", "prefetched = on_device"),
        ("7 of 8 numbers", "def prefetched(loader):\n    yield from list(on_device(loader))[:-1]"),
        ("Python waits for a device", TURNS.format(wait="copies.record_event().synchronize()")),
    ],
    4: [
        ("a wait is missing", CHAINS.format(first=SIDE.replace("side", "stream"), last="pass")),
        ("a wait is missing", CHAINS.format(first="pass", last=MAIN.replace("side", "stream"))),
        ("Python waits for a device", CHAINS.format(first=SIDE.replace("side", "stream"), last="stream.synchronize()")),
        ("do not run side by side", "def total():\n    return chain() + chain() + chain() + chain()"),
        ("mm runs 0 times, not 20", "def total():\n    return 4 * start"),
        ("the sum of all numbers", "def total():\n    return chain()"),
    ],
    5: [
        ("number 1 of the answer is no number", MEANS.format(each="q.append(forward(b).mean())", result="q")),
        ("the devices take turns", MEANS.format(each="q.append(float(forward(b).mean()))", result="q")),
        ("5 of 6 numbers", MEANS.format(each="q.append(forward(b).mean())", result="[v.item() for v in q[:5]]")),
        ("number 1 of the answer", MEANS.format(each="q.append(forward(b).sum())", result="[v.item() for v in q]")),
        ("the devices take turns", MEANS.format(
            each="q.append(forward(b).mean()); perfmagic.synchronize()", result="[v.item() for v in q]")),
    ],
    6: [
        ("a wait is missing", SEND.format(
            before="pass", first="pass", stream="sender", last=REMOVE, result=SENT)),
        ("a wait is missing", SEND.format(
            before="[sender.wait_stream(main) for _ in range(5)]", first="pass", stream="sender",
            last=REMOVE, result=SENT)),
        ("a wait is missing", SEND.format(
            before="pass", first="sender.wait_stream(copies)", stream="sender", last=REMOVE, result=SENT)),
        ("order of stack.parameters()", SEND.format(
            before="pass", first=BEHIND, stream="sender", last=REMOVE, result="[*sent.values()]")),
        ("5 hooks are still there", SEND.format(
            before="pass", first=BEHIND, stream="sender", last="pass", result=SENT)),
        ("0 % of the copies run beside", SEND.format(
            before="pass", first=BEHIND, stream="main", last=REMOVE, result=SENT)),
        ("0 % of the copies run beside", "send_during = backward_then_send"),
        ("no list of gradients", "def send_during():\n    backward_then_send()"),
        ("not the gradients", "def send_during():\n    return backward_then_send()[:4]"),
    ],
    7: [
        ("a wait is missing", BOTH.format(first=SIDE, then="pass", result="q + p")),
        ("a wait is missing", BOTH.format(first="pass", then=MAIN, result="q + p")),
        ("a wait is missing", BOTH.format(first=MAIN, then=SIDE, result="q + p")),
        ("Python waits for a device", BOTH.format(
            first="main.synchronize()", then="side.synchronize()", result="q + p")),
        ("one stream does everything", "def there_and_back():\n    p = x.mm(x)\n    return p.mm(p) + p"),
        ("not q plus p", BOTH.format(first=SIDE, then=MAIN, result="q")),
    ],
}  # fmt: skip

RIGHT = {  # besides the solution
    3: [
        KEEP_ALL,
        FETCH.format(first=f"{READY}; copies.wait_stream(main)", then="pass", last="pass"),
    ]
}
