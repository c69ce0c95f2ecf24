import pytest

from perfmagic.base.errors import OptionError
from perfmagic.predict.gpus import GPUS, Peaks, gpu_named, link_of, pcie_bytes_per_s, peaks_of, peer_bytes_per_s
from perfmagic.trace.model import DeviceInfo


def named(name: str, multiprocessors: int | None = None, kind: str = "cuda") -> Peaks | None:
    return peaks_of(DeviceInfo(0, kind, name, multiprocessors=multiprocessors))


@pytest.mark.parametrize(
    ("driver", "sheet"),
    [
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB"),
        ("A100-SXM4-80GB", "A100 SXM4 80 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("Tesla P100-PCIE-12GB", "P100 PCIe 12 GB"),
        ("AMD Instinct MI300X VF", "MI300X"),
    ],
)
def test_a_device_is_known_by_the_name_of_its_driver(driver: str, sheet: str) -> None:
    found = named(driver)
    assert (found.name, found.kind) == (sheet, "data sheet")


@pytest.mark.parametrize(
    "driver",
    [
        *("NVIDIA A100-PG509-200", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3090 Ti", "device 0", ""),
        *("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Quadro GP100", "NVIDIA H100", "Tesla V100-SXM3-32GB", "NVIDIA L400"),
    ],
)
def test_another_device_has_no_peak(driver: str) -> None:
    assert named(driver) is None


def test_a_part_of_a_device_has_no_peak() -> None:
    assert named("NVIDIA A100-SXM4-80GB", 108) is not None
    assert named("NVIDIA A100-SXM4-80GB", 14) is None
    assert named("NVIDIA A100-SXM4-80GB", 108, kind="sim") is None


def test_each_driver_name_matches_one_sheet_and_faster_types_are_faster() -> None:
    assert len({sheet.name for sheet in GPUS}) == len(GPUS)
    order = ("fp64", "fp32", "tf32", "fp16", "fp8")
    for sheet in GPUS:
        rates = [sheet.tflops[dtype] for dtype in order if dtype in sheet.tflops]
        assert rates == sorted(rates), sheet.name
        assert ": " in sheet.source or "," in sheet.source, sheet.name


def test_bf16_is_as_fast_as_fp16_but_where_a_sheet_says_otherwise() -> None:
    a100, mi100 = named("NVIDIA A100-SXM4-80GB"), named("AMD Instinct MI100")
    assert (a100.of("bf16"), a100.of("fp8"), a100.bytes_per_s) == (312e12, None, 2039e9)
    assert (mi100.of("bf16"), mi100.of("fp16")) == (92.3e12, 184.6e12)


@pytest.mark.parametrize("rates", [{"fp17": 1e12}, {"fp16": 0.0}, {"fp16": float("inf")}])
def test_impossible_peaks_are_refused(rates: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        Peaks(flop_per_s=rates)
    with pytest.raises(OptionError):
        Peaks(bytes_per_s=-1)


@pytest.mark.parametrize(
    ("name", "sheet", "multiprocessors", "flop_per_clock", "boost_ghz"),
    [  # of a multiprocessor, in half precision with float32 sums: each architecture's white paper; and the boost clock
        ("Tesla V100-SXM2-32GB", "V100 SXM2", 80, 1024, 1.53),
        ("Tesla T4", "T4", 40, 1024, 1.59),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80 GB", 108, 2048, 1.41),
        ("NVIDIA A30", "A30", 56, 2048, 1.44),
        ("NVIDIA A10", "A10", 72, 1024, 1.695),
        ("NVIDIA A40", "A40", 84, 1024, 1.74),
        ("NVIDIA L4", "L4", 58, 1024, 2.04),
        ("NVIDIA L40", "L40", 142, 512, 2.49),
        ("NVIDIA L40S", "L40S", 142, 1024, 2.52),
        ("NVIDIA GeForce RTX 3090", "RTX 3090", 82, 512, 1.695),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", 128, 512, 2.52),
        ("NVIDIA GeForce RTX 5090", "RTX 5090", 170, 512, 2.407),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 132, 4096, 1.83),
        ("NVIDIA GH200 480GB", "GH200 96 GB", 132, 4096, 1.83),
        ("AMD Instinct MI100", "MI100", 120, 1024, 1.502),
        ("AMD Instinct MI210", "MI210", 104, 1024, 1.7),
        ("AMD Instinct MI250X", "MI250X, one of two dies", 110, 1024, 1.7),
        ("AMD Instinct MI300X", "MI300X", 304, 2048, 2.1),
        ("AMD Instinct MI325X", "MI325X", 304, 2048, 2.1),
    ],
)
def test_a_peak_is_what_the_multiprocessors_do_at_the_boost_clock(
    name: str, sheet: str, multiprocessors: int, flop_per_clock: int, boost_ghz: float
) -> None:
    peaks = peaks_of(DeviceInfo(0, "cuda", name, multiprocessors=multiprocessors))
    assert (peaks.name, peaks.kind) == (sheet, "data sheet")
    assert peaks.of("fp16") == pytest.approx(multiprocessors * flop_per_clock * boost_ghz * 1e9, rel=0.015)


def test_the_matrix_cores_of_cdna_3_are_twice_as_fast_for_each_half_of_the_bits() -> None:
    peaks = peaks_of(DeviceInfo(0, "rocm", "AMD Instinct MI300X", multiprocessors=304))
    at_clock = 304 * 2.1e9
    for dtype, flop in (("fp64", 256), ("fp32", 256), ("tf32", 1024), ("fp16", 2048), ("fp8", 4096), ("int8", 4096)):
        assert peaks.of(dtype) == pytest.approx(at_clock * flop, rel=1e-3)


def test_the_float8_of_a_geforce_has_no_peak() -> None:
    for name in ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"):
        peaks = peaks_of(DeviceInfo(0, "cuda", name))
        assert peaks.of("fp8") is None


def test_every_gpu_has_a_rate_of_doubles() -> None:
    assert [gpu.name for gpu in GPUS if "fp64" not in gpu.tflops] == []
    for generation, share in (("turing", 32), ("ada", 64)):
        rates = [gpu.tflops for gpu in GPUS if gpu.generation == generation]
        assert [rate["fp64"] for rate in rates] == pytest.approx([rate["fp32"] / share for rate in rates], rel=2e-3)


@pytest.mark.parametrize(
    "name",
    [
        *("H100", "H200", "B200", "A100", "A10G", "L4", "T4", "V100", "RTX 4090", "RTX 4060 laptop", "MI300X", "MI250"),
    ],
)
def test_people_find_a_gpu_by_its_short_name(name: str) -> None:
    gpu = gpu_named(name)
    assert gpu.name.lower().startswith(name.lower())
    assert gpu.memory_bytes == gpu.memory_gb * 10**9 >= 8 * 10**9


def test_the_number_of_an_rtx_may_follow_without_a_space() -> None:
    assert gpu_named("RTX4090") is gpu_named("RTX 4090")


@pytest.mark.parametrize(
    ("name", "nearest"), [("H20", "H200 SXM"), ("rtx 4060", "RTX 4060 Laptop"), ("A800", "A100 SXM4 80 GB")]
)
def test_of_a_gpu_that_is_not_there_the_nearest_names_are_said(name: str, nearest: str) -> None:
    with pytest.raises(OptionError, match="is in the table") as refused:
        gpu_named(name)
    assert refused.value.hint.startswith(f"the nearest names: {nearest}")
    assert "B200" not in refused.value.hint


@pytest.mark.parametrize("name", ["banana", "RTX 6000", "RTX A6000", "GTX 1080"])
def test_nothing_is_near_another_word(name: str) -> None:
    with pytest.raises(OptionError) as refused:
        gpu_named(name)
    assert refused.value.hint.startswith("it has P100, V100")


def test_every_gpu_has_a_link_to_others_and_a_copy_takes_one_way() -> None:
    for gpu in GPUS:
        rate, latency_s = link_of(gpu.name) or (0, 0)
        assert rate >= 6e9, gpu.name
        assert 1e-6 < latency_s < 10e-6
    assert peer_bytes_per_s("H100 SXM") == pytest.approx(360e9)
    assert peer_bytes_per_s("MI300X") == pytest.approx(0.8 * 64e9)
    assert peer_bytes_per_s("L4") == pcie_bytes_per_s("L4")


def test_a_geforce_sends_by_the_host_and_a_laptop_has_half_the_lanes() -> None:
    assert peer_bytes_per_s("RTX 4090") == pytest.approx(12.5e9)
    assert pcie_bytes_per_s("RTX 4090") == pytest.approx(25e9)
    assert pcie_bytes_per_s("RTX 4060 Laptop") == pytest.approx(12.5e9)
