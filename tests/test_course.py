"""Listings of the course as printed, on virtual GPUs, with the sizes printed there; and what they are to show."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from torch import nn  # noqa: E402 - after the skip
from torch.nn import functional as F  # noqa: E402, N812 - torch's own name for it

import perfmagic  # noqa: E402
from perfmagic import Benchmark  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(params=["H100", "T4"])
def gpu(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    perfmagic.device("sim", clock="real", memory=0)


def took_s(step: Callable[[], object]) -> float:
    """Of the second run: in the first one DataParallel finds its devices."""
    step()
    perfmagic.synchronize()
    with Benchmark() as b:
        step()
    return float(b.done_s)


# Asynchronous computation


def test_python_is_back_before_ten_products_are_done(gpu: str) -> None:
    device = perfmagic.device(gpu)
    a = torch.randn(size=(1000, 1000), device=device)
    b = torch.mm(a, a)
    with Benchmark("torch") as early:
        for _ in range(10):
            a = torch.randn(size=(1000, 1000), device=device)
            b = torch.mm(a, a)
    with Benchmark() as late:
        for _ in range(10):
            a = torch.randn(size=(1000, 1000), device=device)
            b = torch.mm(a, a)
        torch.get_device_module(device).synchronize(device)
    assert b.shape == (1000, 1000)
    assert early.returned_s < early.done_s / 2
    assert late.returned_s > 0.95 * late.done_s
    x = torch.ones((1, 2), device=device)
    y = torch.ones((1, 2), device=device)
    z = x * y + 2
    assert "tensor([[3., 3.]]" in str(z)


# Automatic parallelism


def test_two_devices_take_the_time_of_one(gpu: str) -> None:
    devices = perfmagic.devices(2, gpu)

    def run(x: Any) -> list[Any]:
        return [x.mm(x) for _ in range(50)]

    x_gpu1 = torch.rand(size=(4000, 4000), device=devices[0])
    x_gpu2 = torch.rand(size=(4000, 4000), device=devices[1])
    with Benchmark("GPU1 time") as one:
        run(x_gpu1)
        perfmagic.synchronize(devices[0])
    with Benchmark("GPU2 time") as two:
        run(x_gpu2)
        perfmagic.synchronize(devices[1])
    with Benchmark("GPU1 & GPU2") as both:
        run(x_gpu1)
        run(x_gpu2)
        perfmagic.synchronize()
    assert both.done_s < 0.55 * (one.done_s + two.done_s)


def test_copying_results_while_computing_takes_less_than_one_after_the_other(gpu: str) -> None:
    device = perfmagic.device(gpu)

    def run(x: Any) -> list[Any]:
        return [x.mm(x) for _ in range(50)]

    def copy_to_cpu(x: Any, non_blocking: bool = False) -> list[Any]:
        return [y.to("cpu", non_blocking=non_blocking) for y in x]

    x_gpu1 = torch.rand(size=(4000, 4000), device=device)
    with Benchmark("Run on GPU1") as computed:
        y = run(x_gpu1)
        perfmagic.synchronize()
    with Benchmark("Copy to CPU") as copied:
        y_cpu = copy_to_cpu(y)
        perfmagic.synchronize()
    assert len(y_cpu) == 50
    assert y_cpu[49].isnan().all()
    del y_cpu  # 3 GB
    with Benchmark("Run on GPU1 and copy to CPU") as both:
        y = run(x_gpu1)
        _ = copy_to_cpu(y, True)
        perfmagic.synchronize()
    assert both.done_s < 0.9 * (computed.done_s + copied.done_s)


# Compilers and interpreters


def test_a_small_network_leaves_the_device_idle_most_of_the_time(gpu: str) -> None:
    device = perfmagic.device(gpu)
    net = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2)).to(device)
    x = torch.randn(size=(1, 512), device=device)
    with perfmagic.timeline() as t:
        for _ in range(1000):
            net(x)
    assert t.result.verdict.busy_frac < 0.5


# Training on several GPUs


def lenet(x: Any, params: Any) -> Any:
    h1 = F.avg_pool2d(F.relu(F.conv2d(input=x, weight=params[0], bias=params[1])), kernel_size=(2, 2), stride=(2, 2))
    h2 = F.avg_pool2d(F.relu(F.conv2d(input=h1, weight=params[2], bias=params[3])), kernel_size=(2, 2), stride=(2, 2))
    h3 = F.relu(torch.mm(h2.reshape(h2.shape[0], -1), params[4]) + params[5])
    return torch.mm(h3, params[6]) + params[7]


def allreduce(data: Any) -> None:
    for i in range(1, len(data)):
        data[0][:] += data[i].to(data[0].device)
    for i in range(1, len(data)):
        data[i][:] = data[0].to(data[i].device)


def lenet_step(num_gpus: int, devices: tuple[Any, ...], batch_size: int = 256, lr: float = 0.2) -> Callable[[], None]:
    shapes = ((20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,))
    used = devices[:num_gpus]
    device_params = [[(torch.randn(s) * 0.01).to(d).requires_grad_() for s in shapes] for d in used]
    loss = nn.CrossEntropyLoss(reduction="none")
    images, labels = torch.rand(batch_size, 1, 28, 28), torch.randint(10, (batch_size,))

    def train_batch() -> None:
        xs, ys = nn.parallel.scatter(images, used), nn.parallel.scatter(labels, used)
        ls = [loss(lenet(x, w), y).sum() for x, y, w in zip(xs, ys, device_params, strict=True)]
        for one in ls:
            one.backward()
        with torch.no_grad():
            for i in range(len(device_params[0])):
                allreduce([device_params[c][i].grad for c in range(num_gpus)])
            for params in device_params:
                for param in params:
                    param[:] = param - lr * param.grad / batch_size
                    param.grad.zero_()

    return train_batch


class Residual(nn.Module):
    def __init__(self, into: int, out: int, strides: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, kernel_size=3, padding=1, stride=strides)
        self.conv2 = nn.Conv2d(out, out, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(into, out, kernel_size=1, stride=strides) if into != out else None
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.conv3(x) if self.conv3 else x))


def resnet18(num_classes: int = 10) -> Any:
    widths = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    blocks = [Residual(into, out, strides) for into, out, strides in (*widths, (512, 512, 1))]
    first = (nn.Conv2d(1, 64, kernel_size=3, stride=1, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(512, num_classes))


def resnet_step(num_gpus: int, devices: tuple[Any, ...], batch_size: int = 512) -> Callable[[], None]:
    net = nn.DataParallel(resnet18().to(devices[0]), device_ids=devices[:num_gpus])
    trainer, loss = torch.optim.SGD(net.parameters(), lr=0.1), nn.CrossEntropyLoss()
    images, labels = torch.rand(batch_size, 1, 28, 28), torch.randint(10, (batch_size,))

    def train() -> None:
        x, y = images.to(devices[0]), labels.to(devices[0])
        trainer.zero_grad()
        loss(net(x), y).backward()
        trainer.step()

    return train


def test_resnet_gains_from_two_gpus_more_than_lenet_and_more_on_a_slow_gpu(gpu: str) -> None:
    devices = perfmagic.devices(2, gpu)
    lenet_gain, resnet_gain = (
        took_s(step(1, devices)) / took_s(step(2, devices)) for step in (lenet_step, resnet_step)
    )
    assert resnet_gain > (1.7 if gpu == "T4" else 1.2)
    assert lenet_gain < (1.6 if gpu == "T4" else 1.0)


# Memory


def test_a_batch_that_has_no_room_on_a_small_gpu_fits_there_without_gradients(gpu: str) -> None:
    device = perfmagic.device(gpu)
    net, x = resnet18().to(device), torch.rand(8192, 1, 28, 28)
    with torch.no_grad():
        net(x.to(device))
    if gpu == "T4":
        with pytest.raises(torch.OutOfMemoryError):
            net(x.to(device)).sum().backward()
    else:
        net(x.to(device)).sum().backward()
