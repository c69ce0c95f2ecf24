"""What devices can do at most, from their makers' data sheets: arithmetic by type, and memory bandwidth.

Rates are dense, without structured sparsity: where a data sheet prints the rate with it, half of that stands here.
fp32 is ordinary arithmetic (AMD: the matrix cores, which take float32 as it is), all else is tensor or matrix cores
where the device has them. fp16 holds for bfloat16 too, but where bf16 has its own number. Sums in float32, as torch's
products have them, where a sheet also prints a faster kind. A GPU that is not here has no peak, and neither has a
part of one (MIG). Where a sheet prints no float64, it is the white paper's share of float32: 1/32 on Turing, 1/64 on
GA10x, Ada and RTX Blackwell.

bfloat16 of A100, H100, H200, B200, MI300X, MI325X and MI250X is from torchtitan (tools/utils.py, get_peak_flops). Rates
of CDNA 3 are multiprocessors × 2.1 GHz × 256 for float32, and 1024, 2048 and 4096 for the shorter types.
Some drivers name an A100 by its board, PG509 (github.com/facebookincubator/AITemplate/pull/749).
A GeForce of a desktop runs above the boost clock that its rates are of, so that a share can exceed 100 %. Its float8
is left out: sums that torch calls fast run at twice the printed rate.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from perfmagic.base.errors import OptionError
from perfmagic.base.language import listed
from perfmagic.trace.model import DeviceInfo

DATA_SHEET = "data sheet"
YOURS = "given"
TYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True)
class Peaks:
    """What a device can do at most.

    name: the device, as its data sheet calls it.
    flop_per_s: by type, of TYPES, without sparsity; a type that is absent has no known peak.
    bytes_per_s: the memory bandwidth, in bytes per second; None where not known.
    kind: where the numbers are from: data sheet.
    source: the document.

    Raises OptionError for an unknown type or a number that is not above 0.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> own = perfmagic.Peaks("our V100", flop_per_s={"fp32": 15.7e12}, bytes_per_s=900e9)
    >>> rows = t.device_operators(peaks=own)
    >>> {row.peak_bytes_per_s for row in rows}
    {900000000000.0}
    """

    name: str = "this device"
    flop_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    bytes_per_s: float | None = None
    kind: str = YOURS
    source: str = ""

    def __post_init__(self) -> None:
        unknown = sorted(self.flop_per_s.keys() - {*TYPES})
        if unknown:
            raise OptionError(f"peaks of {', '.join(unknown)} are not known", hint=f"types: {', '.join(TYPES)}")
        values = [*self.flop_per_s.values(), *([] if self.bytes_per_s is None else [self.bytes_per_s])]
        if not all(0 < value < float("inf") for value in values):
            raise OptionError("a peak is a number above 0, in FLOP/s or bytes/s", hint="A100: 312e12 and 2.039e12")

    def of(self, dtype: str) -> float | None:
        """The most operations in a second on numbers of a type; bf16 is as fast as fp16 where nothing else is said."""
        flop_per_s = self.flop_per_s.get(dtype)
        return self.flop_per_s.get("fp16") if flop_per_s is None and dtype == "bf16" else flop_per_s


@dataclass(frozen=True)
class Gpu:
    """One device of the table.

    pattern: what the driver calls it.  multiprocessors: AMD's compute units.  memory_gb: the least that is sold under
    the name.  gb_per_s: of its memory.  tflops: rates by type.  source: the document.
    """

    name: str
    pattern: str
    generation: str
    multiprocessors: int
    memory_gb: int
    gb_per_s: float
    tflops: Mapping[str, float] = field(hash=False)
    source: str

    @property
    def is_amd(self) -> bool:
        return self.generation.startswith("cdna")

    @property
    def memory_bytes(self) -> int:
        """By the sheet's 10⁹ bytes. Drivers leave programs between 98 % (T4, L4: error correction) and 106 % (H100)."""
        return self.memory_gb * 10**9

    @property
    def capability(self) -> tuple[int, int]:
        """What torch.cuda.get_device_capability() says."""
        generation = "ampere A100" if re.match("A100|A30", self.name) else self.generation
        return _CAPABILITIES["blackwell RTX" if "RTX 50" in self.name else generation]

    def matches(self, device: DeviceInfo) -> bool:
        """Whether it is this device, whole: a slice of it (MIG, a partition) has fewer multiprocessors."""
        if device.predicted is not None:
            return device.predicted.gpu == self.name
        if not re.fullmatch(rf"(?:(?:NVIDIA|AMD|Tesla|Instinct)\s)*(?:{self.pattern})", device.name.strip()):
            return False
        return device.multiprocessors in (None, self.multiprocessors)


_CAPABILITIES = {  # Source: developer.nvidia.com/cuda-gpus; of AMD torch says the number of the architecture (gfx942)
    "pascal": (6, 0), "volta": (7, 0), "turing": (7, 5), "ampere A100": (8, 0), "ampere": (8, 6), "ada": (8, 9),
    "hopper": (9, 0), "blackwell": (10, 0), "blackwell RTX": (12, 0), "cdna1": (9, 0), "cdna2": (9, 0), "cdna3": (9, 4),
}  # fmt: skip


def gpu_of(device: DeviceInfo) -> Gpu | None:
    """A device by the name its driver gives; None for one that is not in the table, or is simulated by hand."""
    if device.simulated and device.predicted is None:
        return None
    return next((gpu for gpu in GPUS if gpu.matches(device)), None)


def peaks_of(device: DeviceInfo) -> Peaks | None:
    """The peaks of a device by the name its driver gives; None for one that is not in the table."""
    gpu = gpu_of(device)
    if gpu is None:
        return None
    rates = {dtype: value * 1e12 for dtype, value in gpu.tflops.items()}
    return Peaks(gpu.name, rates, gpu.gb_per_s * 1e9, DATA_SHEET, gpu.source)


def gpu_named(name: str) -> Gpu:
    """The device that people call so: "H100" is the first of that name in the table.

    Raises OptionError for a name that is not in the table, with the nearest ones.

    >>> gpu_named("h100").name, gpu_named("A100 PCIe 80GB").name
    ('H100 SXM', 'A100 PCIe 80 GB')
    """
    wanted, driver = _words(name), DeviceInfo(0, "cuda", name.strip())
    model = any(char.isdigit() for word in wanted for char in word)
    found = next((gpu for gpu in GPUS if gpu.matches(driver) or (model and _is_called(gpu, wanted))), None)
    if found is None:
        raise OptionError(f"no GPU called {name!r} is in the table", hint=_near(name))
    return found


def _near(name: str) -> str:
    """The names of the table that are much like one that is not there; else all that it has."""
    wanted = re.sub(r"^(?:(?:NVIDIA|AMD|TESLA|INSTINCT|GEFORCE)\s)*", "", name.strip().upper())
    near = difflib.get_close_matches(_number(wanted), dict.fromkeys(_number(gpu.name) for gpu in GPUS), cutoff=0.7)
    names = [gpu.name for number in near for gpu in GPUS if _number(gpu.name) == number]
    models = dict.fromkeys(_model(gpu.name) for gpu in GPUS)
    return f"the nearest names: {', '.join(names[:4])}" if names else f"it has {listed([*models])}"


def _number(name: str) -> str:
    """What tells models apart: not "RTX", by which a 6000 would be like a 5090."""
    return re.sub(r"^RTX ?", "", _model(name))


def _model(name: str) -> str:
    """A name up to its number: "A100" of "A100 SXM4 80 GB"."""
    match = re.match(r"\D*\d\w*", name)
    return match[0] if match else name


def _is_called(gpu: Gpu, wanted: frozenset[str]) -> bool:
    """Whether a device has all these words in its name; a GPU of a laptop is another than that of a desktop."""
    words = _words(gpu.name)
    return wanted <= words and ("laptop" in wanted) == ("laptop" in words)


def _words(name: str) -> frozenset[str]:
    """What tells devices apart: the words of a name without the maker's, "80 GB" as one, "RTX4090" as two."""
    joined = re.sub(r"\brtx(?=\d)", "rtx ", re.sub(r"(\d) ?gb\b", r"\1gb", name.lower()))
    return frozenset(re.findall(r"\w+", joined)) - {"nvidia", "geforce", "amd", "tesla", "instinct", "gpu"}


# The link to the host.

# What a pinned copy reaches over 16 lanes, in bytes per second: four fifths of what the lanes carry (PCI-SIG: 8, 16 and
# 32 GT/s a lane, 128b/130b coding), as CUDA's bandwidthTest prints on such boards.
PCIE_BYTES_PER_S = {3: 12e9, 4: 25e9, 5: 50e9}
# The generation by NVIDIA's and AMD's data sheets. Devices whose hosts are not on PCIe (GH200, GB200) are not here.
_GENERATION = (
    (re.compile(r"\b(?:GP100|P100|P40|P4|V100\w*|GV100|T4|TITAN|GTX|RTX (?:20\d0|[4568]000)|MI(?:50|60))\b"), 3),
    (re.compile(r"\b(?:A(?:100|10G?|16|30|40|2|800)|RTX [34]0\d0|RTX A\d+|L4|L40S?|MI(?:100|2\d0X?))\b"), 4),
    (re.compile(r"\b(?:H(?:100|200|20|800)|B200|B100|RTX 50\d0|MI3\d\dX?)\b"), 5),
)
_ON_THE_CHIP = re.compile(r"\bG[HB]\d00")
# AD107 has 8 lanes: game-drip.com/palit-releases-geforce-rtx-4060-dual-and-stormx-with-trimmed-pcie-x8-interface
_EIGHT_LANES = re.compile(r"\bRTX 4060\b")


def pcie_bytes_per_s(name: str) -> float | None:
    """What a pinned copy reaches to a device of that name over all its lanes; None where its link is not known."""
    generation = pcie_generation(name)
    return None if generation is None else PCIE_BYTES_PER_S[generation] * pcie_lanes(name) / 16


def pcie_lanes(name: str) -> int:
    """How many lanes of PCIe a device of that name has."""
    return 8 if _EIGHT_LANES.search(name) else 16


def pcie_generation(name: str) -> int | None:
    """The generation of PCIe of a device by its name; None where its link is not known."""
    if _ON_THE_CHIP.search(name):
        return None
    return next((number for pattern, number in _GENERATION if pattern.search(name)), None)


# The links to other GPUs of a server: all NVLinks of one together, or AMD's, each way (data sheets).
_LINKS = (
    (re.compile("P100 SXM2"), 80e9),
    (re.compile("V100 (?:SXM2|DGX)"), 150e9),
    (re.compile("A100 SXM4"), 300e9),
    (re.compile("H[12]00 SXM|GH200"), 450e9),
    (re.compile("B200"), 900e9),
    (re.compile(r"MI3\d\dX"), 448e9),
    (re.compile("MI2[15]0"), 50e9),  # a ring passes pairs with one link
    (re.compile("MI100"), 46e9),
)
# With NVIDIA's driver a GeForce cannot reach another one's memory: copies go through the host's, at half the rate. RTX
# 4090: 13 of 25 GB/s each way (github.com/tinygrad/open-gpu-kernel-modules/issues/6); RTX 3090 without a bridge:
# github.com/NVIDIA/nccl/issues/1127
_BY_THE_HOST = re.compile(r"RTX \d0\d0\b")
_MESH_LINKS = 7  # of an MI300X, one to each other; NVIDIA's go through a switch
_LINK_FRAC = 0.8  # "with the protocol overhead NCCL can get 370 of 450 GB/s" (NVIDIA/nccl-tests issue 212)
_LINK_S, _BUS_S = 3.4e-6, 5.7e-6  # a step of a ring (NCCL, src/graph/tuning.cc)


def link_of(name: str) -> tuple[float, float] | None:
    """What passes between two GPUs of that name in a server, bytes/s each way, and the latency in seconds.

    Their bus where they have no links; None where that is not known.
    """
    rate = next((rate for pattern, rate in _LINKS if pattern.match(name)), None)
    if rate is not None:
        return rate * _LINK_FRAC, _LINK_S
    bus = pcie_bytes_per_s(name)
    return None if bus is None else (bus / 2 if _BY_THE_HOST.match(name) else bus, _BUS_S)


# Whose links go through a switch, so that two GPUs have all of them; others have a link or two to each peer.
_SWITCHED = re.compile("A100 SXM4|H[12]00 SXM|GH200|B200")
_WHOLE_SERVER = 8


def link_peak(name: str, n_ranks: int) -> tuple[float, str] | None:
    """The peak of the links from a GPU of that name to n_ranks - 1 others of its server, bytes/s each way; their name.

    PCIe is 16 lanes (PCI-SIG: 8, 16, 32 GT/s a lane, 128b/130b). None where not known: an unknown GPU, and part of a
    server whose GPUs have a link or two to each peer. Reductions inside a switch (NVLink SHARP) may exceed it.
    """
    rate = next((rate for pattern, rate in _LINKS if pattern.match(name)), None)
    if rate is None:
        generation = pcie_generation(name)
        return None if generation is None else (2**generation * 1e9 * 16 / 8 * 128 / 130, f"PCIe {generation}")
    if name.startswith("MI3"):
        return rate * min(n_ranks - 1, _MESH_LINKS) / _MESH_LINKS, "Infinity Fabric"
    if not _SWITCHED.match(name) and n_ranks < _WHOLE_SERVER:
        return None
    return rate, "Infinity Fabric" if name.startswith("MI") else "NVLink"


def peer_bytes_per_s(name: str) -> float | None:
    """What a copy between two GPUs of that name in a server reaches; None where that is not known."""
    link = link_of(name)
    return link and link[0] / (_MESH_LINKS if name.startswith("MI3") else 1)


_V100 = (
    "NVIDIA V100 data sheet, 2020: "
    "images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf"
)
_P100 = (
    "NVIDIA Tesla P100 data sheet: "
    "images.nvidia.com/content/tesla/pdf/nvidia-tesla-p100-datasheet.pdf (PCIe: -PCIe-datasheet.pdf)"
)
_A100 = (
    "NVIDIA A100 data sheet, 2021: "
    "nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
)
_H100 = "NVIDIA H100 data sheet: resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_H100_PCIE = (
    "NVIDIA H100 data sheet of 2023, column PCIe (later ones have NVL in its place); product brief PB-11133-001"
)
_H200 = (
    "NVIDIA H200 data sheet: "
    "resources.nvidia.com/en-us-data-center-overview-mc/en-us-data-center-overview/hpc-datasheet-sc23-h200"
)
_GH200 = "NVIDIA GH200 data sheet: resources.nvidia.com/en-us-grace-cpu/grace-hopper-superchip"
_B200 = (
    "NVIDIA Blackwell data sheet, HGX B200, one GPU: nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703; TF32: "
    "nvidia.com/en-us/data-center/hgx, 18 PFLOPS of eight with sparsity"
)
_ADA = "NVIDIA {} data sheet: resources.nvidia.com/en-us-l40s/l40s-datasheet-28413, nvidia.com/en-us/data-center/{}"
_MI200 = "AMD Instinct {} data sheet: amd.com/en/products/accelerators/instinct/mi200/{}.html"
_MI300 = "AMD Instinct {} data sheet: amd.com/en/products/accelerators/instinct/mi300/{}.html"
_RTX = "NVIDIA {} GPU architecture white paper, appendix: GeForce {}; float32 sums"

_HOPPER = {"fp64": 67, "fp32": 67, "tf32": 494.5, "fp16": 989.5, "fp8": 1979, "int8": 1979}
_HOPPER_NVL = {"fp64": 60, "fp32": 60, "tf32": 417.5, "fp16": 835.5, "fp8": 1670.5, "int8": 1670.5}
_VOLTA = {"fp64": 7.8, "fp32": 15.7, "fp16": 125}
_AMPERE = {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "int8": 624}
_CDNA3 = {"fp64": 163.4, "fp32": 163.4, "tf32": 653.7, "fp16": 1307.4, "fp8": 2614.9, "int8": 2614.9}

GPUS: tuple[Gpu, ...] = (
    Gpu("P100 SXM2", "P100-SXM2-16GB", "pascal", 56, 16, 732, {"fp64": 5.3, "fp32": 10.6, "fp16": 21.2}, _P100),
    Gpu("P100 PCIe 16 GB", "P100-PCIE-16GB", "pascal", 56, 16, 732, {"fp64": 4.7, "fp32": 9.3, "fp16": 18.7}, _P100),
    Gpu("P100 PCIe 12 GB", "P100-PCIE-12GB", "pascal", 56, 12, 549, {"fp64": 4.7, "fp32": 9.3, "fp16": 18.7}, _P100),
    Gpu("V100 SXM2", r"V100-SXM2-(?:16|32)GB(?:-LS)?", "volta", 80, 16, 900, _VOLTA, _V100),
    Gpu(
        "V100 DGX Station", r"V100-DGXS-(?:16|32)GB", "volta", 80, 16, 900, _VOLTA,
        "NVIDIA DGX Station data sheet, 2018: 500 TFLOPS of four V100",
    ),
    Gpu("V100 PCIe", r"V100-PCIE-(?:16|32)GB", "volta", 80, 16, 900, {"fp64": 7, "fp32": 14, "fp16": 112}, _V100),
    Gpu("V100S PCIe", "V100S-PCIE-32GB", "volta", 80, 32, 1134, {"fp64": 8.2, "fp32": 16.4, "fp16": 130}, _V100),
    Gpu(
        "T4", "T4", "turing", 40, 16, 320, {"fp64": 0.253, "fp32": 8.1, "fp16": 65, "int8": 130},
        "NVIDIA T4 data sheet: nvidia.com/en-us/data-center/tesla-t4; bandwidth: product brief PB-09256-001",
    ),
    Gpu(
        "A10", "A10", "ampere", 72, 24, 600, {"fp64": 0.488, "fp32": 31.2, "tf32": 62.5, "fp16": 125, "int8": 250},
        "NVIDIA A10 data sheet: nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/a10-datasheet.pdf",
    ),
    Gpu(
        "A10G", "A10G", "ampere", 80, 24, 600, {"fp64": 0.547, "fp32": 35, "tf32": 35, "fp16": 70, "int8": 140},
        "NVIDIA A10G data sheet, 2022: "
        "d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
    ),
    Gpu(
        "A30", "A30", "ampere", 56, 24, 933, {"fp64": 10.3, "fp32": 10.3, "tf32": 82, "fp16": 165, "int8": 330},
        "NVIDIA A30 data sheet: "
        "nvidia.com/content/dam/en-zz/Solutions/data-center/products/a30-gpu/pdf/a30-datasheet.pdf",
    ),
    Gpu(
        "A40", "A40", "ampere", 84, 48, 696, {"fp64": 0.584, "fp32": 37.4, "tf32": 74.8, "fp16": 149.7, "int8": 299.3},
        "NVIDIA A40 data sheet: images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf",
    ),
    Gpu("A100 SXM4 80 GB", r"A100-SXM4-80GB|PG509-2\d\d", "ampere", 108, 80, 2039, _AMPERE, _A100),
    Gpu("A100 SXM4 40 GB", "A100-SXM4-40GB", "ampere", 108, 40, 1555, _AMPERE, _A100),
    Gpu("A100 PCIe 40 GB", "A100-PCIE-40GB", "ampere", 108, 40, 1555, _AMPERE, _A100),
    Gpu("A100 PCIe 80 GB", "A100[- ]80GB[- ]PCIe|A100-PCIE-80GB", "ampere", 108, 80, 1935, _AMPERE, _A100),
    Gpu(
        "L4", "L4", "ada", 58, 24, 300,
        {"fp64": 0.473, "fp32": 30.3, "tf32": 60, "fp16": 121, "fp8": 242.5, "int8": 242.5},
        _ADA.format("L4", "l4"),
    ),
    Gpu(
        "L40", "L40", "ada", 142, 48, 864,
        {"fp64": 1.414, "fp32": 90.5, "tf32": 90.5, "fp16": 181.05, "fp8": 362, "int8": 362},
        _ADA.format("L40", "l40"),
    ),
    Gpu(
        "L40S", "L40S", "ada", 142, 48, 864,
        {"fp64": 1.431, "fp32": 91.6, "tf32": 183, "fp16": 362.05, "fp8": 733, "int8": 733},
        _ADA.format("L40S", "l40s"),
    ),
    Gpu(
        "RTX 3090", "GeForce RTX 3090", "ampere", 82, 24, 936,
        {"fp64": 0.556, "fp32": 35.6, "tf32": 35.6, "fp16": 71.2, "int8": 284.7},
        _RTX.format("Ampere GA102", "RTX 3090"),
    ),
    Gpu(
        "RTX 4090", "GeForce RTX 4090", "ada", 128, 24, 1008,
        {"fp64": 1.291, "fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "int8": 660.6},
        _RTX.format("Ada", "RTX 4090"),
    ),
    Gpu(
        "RTX 4060 Laptop", "GeForce RTX 4060 Laptop GPU", "ada", 24, 8, 256,
        {"fp64": 0.228, "fp32": 14.6, "tf32": 14.6, "fp16": 29.1, "int8": 116.5},
        "NVIDIA GeForce laptops, 3072 cores at up to 2370 MHz: nvidia.com/en-us/geforce/laptops/compare; a clock: Ada",
    ),
    Gpu(
        "RTX 5090", "GeForce RTX 5090", "blackwell", 170, 32, 1792,
        {"fp64": 1.638, "fp32": 104.8, "tf32": 104.8, "fp16": 209.5, "int8": 838},
        _RTX.format("RTX Blackwell", "RTX 5090"),
    ),
    Gpu("H100 SXM", "H100 80GB HBM3", "hopper", 132, 80, 3350, _HOPPER, _H100),
    Gpu(
        "H100 PCIe", "H100 PCIe", "hopper", 114, 80, 2000,
        {"fp64": 51, "fp32": 51, "tf32": 378, "fp16": 756.5, "fp8": 1513, "int8": 1513}, _H100_PCIE,
    ),
    Gpu("H100 NVL", "H100 NVL", "hopper", 132, 94, 3900, _HOPPER_NVL, _H100),
    Gpu("H200 SXM", "H200", "hopper", 132, 141, 4800, _HOPPER, _H200),
    Gpu("H200 NVL", "H200 NVL", "hopper", 132, 141, 4800, _HOPPER_NVL, _H200),
    Gpu("GH200 96 GB", "GH200 (?:480|120)GB", "hopper", 132, 96, 4000, _HOPPER, _GH200),
    Gpu("GH200 144 GB", "GH200 144G HBM3e", "hopper", 132, 144, 4900, _HOPPER, _GH200),
    Gpu(
        "B200", "B200", "blackwell", 148, 180, 7700,
        {"fp64": 37, "fp32": 75, "tf32": 1125, "fp16": 2250, "fp8": 4500, "int8": 4500}, _B200,
    ),
    Gpu(
        "MI100", "MI100", "cdna1", 120, 32, 1228.8,
        {"fp64": 11.5, "fp32": 46.1, "fp16": 184.6, "bf16": 92.3, "int8": 184.6},
        "AMD Instinct MI100 data sheet: amd.com/en/products/accelerators/instinct/mi100.html",
    ),
    Gpu(
        "MI210", "MI210", "cdna2", 104, 64, 1638.4, {"fp64": 45.3, "fp32": 45.3, "fp16": 181, "int8": 181},
        _MI200.format("MI210", "mi210"),
    ),
    Gpu(
        "MI250, one of two dies", "MI250|MI250X / MI250", "cdna2", 104, 64, 1638.4,
        {"fp64": 45.3, "fp32": 45.3, "fp16": 181, "int8": 181}, _MI200.format("MI250", "mi250"),
    ),
    Gpu(
        "MI250X, one of two dies", "MI250X", "cdna2", 110, 64, 1638.4,
        {"fp64": 47.9, "fp32": 47.9, "fp16": 191.5, "int8": 191.5}, _MI200.format("MI250X", "mi250x"),
    ),
    Gpu("MI300X", "MI300X(?: VF)?", "cdna3", 304, 192, 5300, _CDNA3, _MI300.format("MI300X", "mi300x")),
    Gpu("MI325X", "MI325X(?: VF)?", "cdna3", 304, 256, 6000, _CDNA3, _MI300.format("MI325X", "mi325x")),
)  # fmt: skip
