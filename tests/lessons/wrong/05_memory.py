"""Wrong answers to the exercises of lesson 05: words of the reason, and the answer that gets it."""

HELD = "def bytes_a_parameter():\n    return {}"
RELU = "def kept_by_relu(rows, width):\n    return {}"
BLOCK = "def needed_in_a_block(rows, width):\n    return {}"
COLLECT = "def collect(losses, loss):\n    {}"
DESCEND = "def descend(parameters, rate):\n    for p in parameters:\n        {}"
PARTS = "def parts_for(limit_bytes):\n    {}"
TRY = "parts = 1\n    while peak_of(parts) > limit_bytes:\n        parts {}\n    return parts"
MIXED = "def mixed_bytes_a_parameter():\n    return {}"
AMP = """
def amp_step(net, optimizer, scaler, x):
    with torch.autocast({device}, dtype=torch.float16):
        loss = small_loss(net, x)
    {clear}
    {backward}
    {step}
    {end}
"""


def amp(device="device.type", clear="optimizer.zero_grad()", backward="scaler.scale(loss).backward()",
        step="scaler.step(optimizer); scaler.update()", end="return loss.detach()"):  # fmt: skip
    """A step, right but for what is given."""
    return AMP.format(device=device, clear=clear, backward=backward, step=step, end=end)


ROOM = "def room(total, allocated, reserved):\n    return ({}, {}), ({}, {})"
HUNDRED = "def hundred():\n    {}"
LOSS = "(net(x) - x).square().mean()"

WRONG = {
    1: [
        ("too low", HELD.format("4 + 4")),
        ("too low", HELD.format("4 + 4 + 4")),
        ("too high", HELD.format("4 + 4 + 2 * 8")),
        ("no number", HELD.format("None")),
    ],
    2: [
        ("for 1024 rows and width 128 is", RELU.format("rows * 4 * width * 4")),
        ("too low", RELU.format("3 * rows * width * 4")),
        ("too low", RELU.format("3 * rows * 4 * width")),
        ("too high", RELU.format("2 * 3 * rows * 4 * width * 4")),
        ("for 2048 rows", RELU.format("6291456")),
    ],
    3: [
        ("too low", BLOCK.format("rows * 4 * width * 4")),
        ("too high", BLOCK.format("3 * 2 * rows * 4 * width * 4")),
        ("too high", BLOCK.format("2 * rows * 4 * width * 4 + rows * width * 4")),
    ],
    4: [
        ("each round leaves 7.86 MB behind", COLLECT.format("losses.append(loss.clone())")),
        ("expected 4 losses, got 1", COLLECT.format("losses[:] = [loss.item()]")),
        ("expected 4 losses, got 0", COLLECT.format("loss.detach()")),
        ("number 1 of the list", COLLECT.format("losses.append(round(loss.item()))")),
    ],
    5: [
        ("without an error", DESCEND.format("p.data -= rate * p.grad")),
        ("number 1 of the list of parameters is 1.00", DESCEND.format("p = p - rate * p.grad")),
        ("number 1 of the list of parameters is 1.30", DESCEND.format("p.detach().add_(rate * p.grad)")),
        ("number 1 of the list of parameters", DESCEND.format("p.detach().sub_(rate)")),
    ],
    6: [
        ("parts fit, too", PARTS.format(TRY.format("*= 2"))),
        ("parts fit, too", PARTS.format("return 8")),
        ("and the limit is", PARTS.format("return 2")),
        ("None is not a whole number", PARTS.format("pass")),
    ],
    7: [
        ("too low", MIXED.format("2 + 2 + 2 * 4")),
        ("too low", MIXED.format("2 + 2 + 2 * 2")),
        ("too high", MIXED.format("4 + 4 + 4 + 2 * 4")),
    ],
    8: [
        ("not computed once a step, in float16", amp(device="'cuda'")),
        ("no parameter has changed", amp(backward="loss.backward()", step="optimizer.step()")),
        ("after step 1 is", amp(step="optimizer.step()")),
        ("no parameter has changed", amp(step="pass")),
        ("after step 1 is", amp(clear="pass")),
        ("after step 1 is", amp(clear="loss = loss / 2; optimizer.zero_grad()")),
        ("the loss of step 1", amp(end="return scaler.scale(loss)")),
        ("the loss of step 1", amp(end="return 0.0")),
        ("returns no loss", amp(end="pass")),
        ("stays as it was", amp(step="scaler.step(optimizer)")),
        ("each once and in this order", amp(step="optimizer.step(); scaler.update()")),
    ],
    9: [
        ("for another program before empty_cache() are too many", ROOM.format(*["total - allocated"] * 4)),
        ("for this program before empty_cache() are too few",
         ROOM.format(*["total - reserved"] * 2, *["total - allocated"] * 2)),
        ("for this program after empty_cache() are too few",
         ROOM.format("total - allocated", "total - reserved", "total - reserved", "total - allocated")),
        ("a value is missing", "def room(total, allocated, reserved):\n    total - allocated"),
    ],
    10: [
        ("are left", HUNDRED.format(f"return [{LOSS} for _ in range(100)]")),
        ("no list of 100 losses", HUNDRED.format(f"return [{LOSS}.item()]")),
        ("number 1 of the list", HUNDRED.format("return [0.0] * 100")),
        ("no list of 100 losses", HUNDRED.format(f"for _ in range(3):\n        {LOSS}.item()")),
    ],
}  # fmt: skip
