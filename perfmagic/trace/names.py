"""What the name of a device op says: its class, its direction, whether it uses tensor cores; its short form.

Every rule looks at one name at a time; `op_classes` decides once for each name that occurs and spreads the answer.
"""

from __future__ import annotations

import enum
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.base.kinds import UNKNOWN_TIME
from perfmagic.base.numerics.intervals import coded, distinct
from perfmagic.base.terminal import columns, printable, squeezed
from perfmagic.base.units import plural
from perfmagic.trace.columns import NONE, HostOps, Int8, OpKind, in_one_table
from perfmagic.trace.families import FAMILIES, Family, Looks
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.signatures import LONGEST_NAME, Kind, Term, function_name, is_signature, once_per_name, signature


class OpClass(enum.IntEnum):
    """What a device op works on: the classes whose overlap is measured and which pictures colour."""

    MATRIX = 0  # matrix products, convolutions, attention
    COMPUTE = 1  # every other kernel
    COMMUNICATION = 2  # kernels of a communication library
    HTOD = 3
    DTOH = 4
    DTOD = 5
    PTOP = 6
    MEMSET = 7
    UNKNOWN = 8  # kernels without a model: a lower bound of their time is known


def _in_any_case(pattern: str) -> re.Pattern[str]:
    """For names in lower case: a search that ignores the case of both takes three times as long."""
    return re.compile(pattern.lower())


# Libraries, anywhere in the name; most of them by their C++ namespace. Read in the sources of
# DeepEP and those that carry its kernels in namespaces of their own (uccl, Primus-Turbo, MagiAttention): intranode,
# internode, internode_ll, with the functions dispatch, combine, notify_dispatch, cached_notify …; mangled names, too;
# NVIDIA's Hybrid-EP, pplx-kernels, mori (AMD), TensorRT-LLM's and FlashInfer's moe_comm: expert parallelism, too;
# torch: c10d's symmetric_memory, intra_node_comm (one_shot, two_shot, multimem), nvshmem and nccl extensions;
# vLLM, SGLang and AITER: cross_device_reduce, quickreduce; FBGEMM: car.cu; Flux: the barrier between its GPUs;
# Transformer Engine and TensorRT-LLM: userbuffers; Meta: ncclx, ctran.
_COMM_LIBRARY = _in_any_case(
    r"nccl|rccl|nvshmem|rocshmem|ishmem|deep_?ep::(?!(?:\w+::)?get_dispatch_layout)|hybrid_ep::|mscclpp|msccl|oneccl"
    r"|(?:^|[\s:])(?:internode|intranode)(?:_ll)?::(?!get_dispatch_layout)"
    r"|^_ZN\w*?(?:9internode|9intranode|12internode_ll)(?=\d)(?!19get_dispatch_layout)"
    r"|(?:^|[\s:])pplx::|Ep(?:Dispatch|Combine)\w*(?:Intra|Inter)Node|moe_comm::|moeA2A(?:Dispatch|Combine)"
    r"|a2a_(?:dispatch|combine)_(?:send|recv)"
    r"|symmetric_memory::|intra_node_comm::|multimem_|symm_mem|(?:one|two)_?shot_?all_?reduce"
    r"|cross_device_reduce|quickreduce::|allreduce_prototype_|lamport\w*allreduce|fbgemm_gpu::barrier"
    r"|cudaipc_barrier|userbuffers_|ctran\w*::",
)
# Collectives in the kernel's own name; "warp_all_reduce" and the like stay inside one GPU.
_COMM_KERNEL = _in_any_case(
    r"^(?!.*(?:warp|block|quad|thread))\w*?(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)"
)

# Kernels that do without tensor cores whatever else stands in their name: cuBLAS's and cuDNN's xmma kernels say "ffma"
# where they use ordinary arithmetic; the passes before and after attention carry the traits of the kernel between them
# (flash-attention, csrc).
_NEVER_TENSOR = _in_any_case(
    r"_ffma_|dot_do_o|convert_dq|_combine_kernel|splitk_?reduce|FlashAttn(?:Fwd)?Combine|FlashAttnBwd(?:Pre|Post)",
)
_TENSOR = _in_any_case(
    # the m-n-k of an instruction after the type of its sum: h884 (Volta), s1688 (Turing), s16816 (Ampere), i16832 …;
    # the list that NVIDIA's PyProf went by, prof/tc.py, later PyTorch's TensorBoard plugin
    r"(?<![a-z0-9])[hsidczb](?:884|1684|1688|8816|8832|16816|16832|16864)"
    # the instruction by its name in SASS, PTX or the libraries: mma.sync, wgmma (Hopper), tcgen05 and umma (Blackwell)
    r"|(?<![a-z])[hidqb]mma(?![a-z])|wmma|gmma|(?:tma|_)umma|tcgen05|xmma|(?:^|_|mma|opclass)tensorop"
    # an instruction of CuTe: SM80_16x8x16_F32F16F16F32_TN
    r"|sm(?:[789]|10|12)\d_\d+x\d+x\d+"
    # cuBLAS from Hopper on; DeepGEMM; the generated kernels of TensorRT-LLM and FlashInfer for Blackwell
    r"|nvjet|deep_gemm::\w*gemm|(?:^|::)sm(?:90|1[02]0)_\w*gemm|^(?:bmm|gemm)_\w+_sm1\d\d[af]?$"
    # flash attention 2 (mma.sync only) and 3; the fused attention of TensorRT-LLM; PyTorch's memory-efficient attention
    # takes tensor cores for halves from Volta on and for floats from Ampere on (DefaultGemmType in gemm_kernel_utils.h)
    r"|flash_(?:fwd|bwd)\w*_kernel|FlashAttn(?:Fwd|Bwd)Sm\d|fmhaSm\d|fmha_v2_"
    r"|fmha_cutlass[FB]_b?f16_\w*_sm(?:[789]|1\d)\d|fmha_cutlass[FB]_f32_\w*_sm(?:[89]|1\d)\d"
    # AMD's matrix cores: the MatrixInstruction in Tensile's names (MI16x16x16x1, MIWT: its wave tile), composable
    # kernel's xdl, MIOpen's igemm for xdlops
    r"|mfma|_MI(?:\d+[x_]\d|WT\d)|xdl|igemm_\w+_gtcx",
)
# Looked at last: cuBLAS and cuDNN name the rest after the BLAS routine, their vector kernels gemv, gemmk1 and gemmSN;
# CUTLASS calls ordinary arithmetic "simt", and the other two "tensorop" and "wmma" (its documentation, functionality).
_NOT_TENSOR = _in_any_case(
    r"simt|(?<![a-z0-9])(?:s|h|c|z|gc)(?:gemm|cudnn)|(?:maxwell|pascal|volta|turing)_dgemm|gemv|gemmk1_|gemmsn_|winograd"
    r"|[wd]grad\w*_engine|fmha_cutlass|cijk_\w+_TT\d|igemm_\w+_gtcn?\d?_|miopensp3|naive_conv"
    r"|^(?:void )?at::native::(?!.*gemm)|^triton_(?:poi|per|red|for)_|nccl|rccl",
)

_DIRECTIONS = (
    (re.compile(r"\bHto[DA]|HostToDevice", re.IGNORECASE), OpClass.HTOD),
    (re.compile(r"\b[DA]toH|DeviceToHost", re.IGNORECASE), OpClass.DTOH),
    (re.compile(r"\bPtoP|PeerToPeer", re.IGNORECASE), OpClass.PTOP),
)

_DIRECTED = re.compile("to[dahp]")  # stands in all of these: looked for first, as files have many names of no copy

_NAMED, _ALIKE = 5, 0.7  # names that an error lists, and how alike words have to be, of difflib's 0 to 1
_WORDS, _CAMEL = re.compile(r"[A-Za-z]{3,}"), re.compile(r"[A-Z]*[a-z]+")


@once_per_trace
def op_classes(trace: Trace, comm_names: str | None = None) -> Int8:
    """The OpClass of every device op; shape of trace.ops.

    comm_names: a regular expression, searched in kernel names without regard to case. Where given it replaces the
    default rule for communication entirely, the record's collective metadata included.
    Raises re.error for an expression that cannot be compiled. Source: docs/words.md, "overlap".
    """
    ops = trace.ops
    is_comm = _comm_rule(comm_names)
    use_metadata = comm_names is None
    key = (ops.name.astype(np.int64) * 4 + ops.kind) * 2 + ((ops.collective != NONE) & use_metadata)
    unique, inverse = coded(key)
    decided = [_op_class(trace.names[k // 8], OpKind(k // 2 % 4), bool(k % 2), is_comm) for k in unique.tolist()]
    classes: Int8 = np.array(decided, np.int8)[inverse]
    classes.flags.writeable = False
    return classes


def comm_kernel_names(trace: Trace, comm_names: str | None = None) -> tuple[str, ...]:
    """The kernel names that count as communication under the rule, sorted: what a report must list."""
    rows = op_classes(trace, comm_names) == OpClass.COMMUNICATION
    return tuple(sorted({trace.names[i] for i in distinct(trace.ops.name[rows]).tolist()}))


@once_per_trace
def unknown_operators(trace: Trace) -> tuple[str, ...]:
    """The operators whose ops have no model, in the order of the names."""
    used = distinct(trace.ops.name).tolist()
    return tuple(
        trace.names[name].removesuffix(UNKNOWN_TIME) for name in used if trace.names[name].endswith(UNKNOWN_TIME)
    )


@once_per_trace
def kernel_short_names(trace: Trace) -> Mapping[str, str]:
    """The short form of every device op's name in a trace; the same in every table, card and sentence about it."""
    return short_names((trace.names[i] for i in distinct(trace.ops.name).tolist()), WIDTH)


@once_per_trace
def shown_names(trace: Trace) -> tuple[str, ...]:
    """Every name of a trace for display, by its number: names of device ops are shortened."""
    short = kernel_short_names(trace)
    return tuple(short.get(name) or name for name in trace.names)


def copy_direction(name: str) -> OpClass:
    """The direction a copy's name gives; a copy that names none stays on its device (DTOD)."""
    if _DIRECTED.search(name.lower()):
        for pattern, direction in _DIRECTIONS:
            if pattern.search(name):
                return direction
    return OpClass.DTOD


@once_per_name
def uses_tensor_cores(name: str) -> bool | None:
    """Whether a kernel's name says that it computes on tensor cores (AMD: matrix cores); None where it does not tell.

    A Triton kernel's name never tells: its compiler chooses the instruction by the types.

    >>> uses_tensor_cores("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn")
    True
    >>> uses_tensor_cores("ampere_sgemm_128x64_nn")
    False
    """
    if _NEVER_TENSOR.search(function_name(name).lower()):
        return False
    lower = name.lower()
    if _TENSOR.search(lower):
        return True
    return False if _NOT_TENSOR.search(lower) else None


def is_pageable(name: str) -> bool:
    """Whether a copy's name says that its host side is pageable memory, which blocks the host."""
    return "pageable" in name.lower()


def _op_class(name: str, kind: OpKind, collective: bool, is_comm: Callable[[str], bool]) -> OpClass:
    if kind == OpKind.MEMCPY:
        return copy_direction(name)
    if kind == OpKind.MEMSET:
        return OpClass.MEMSET
    if collective or is_comm(name):
        return OpClass.COMMUNICATION
    if name.endswith(UNKNOWN_TIME):
        return OpClass.UNKNOWN
    family = find_family(name)
    return OpClass.MATRIX if family is not None and family.multiplies else OpClass.COMPUTE


def checked_pattern(comm_names: str | None) -> None:
    """Raise OptionError for a rule that is no regular expression, before anything is run or read for it."""
    try:
        re.compile(comm_names or "")
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise OptionError(
            f"comm names {comm_names!r} are not a regular expression: {error}",
            hint='give text such as "nccl|my_allreduce", or leave it out for the known libraries',
        ) from None


def kernel_names(traces: Iterable[Trace]) -> dict[str, int]:
    """Every kernel name of some traces and how long it executed in all, in ns; the longest first."""
    total: Counter[str] = Counter()
    for trace in traces:
        rows = trace.ops.kind == OpKind.KERNEL
        used, at = coded(trace.ops.name[rows])
        sums = np.zeros(len(used), np.int64)
        np.add.at(sums, at, (trace.ops.end_ns - trace.ops.start_ns)[rows])
        total.update({trace.names[name]: ns for name, ns in zip(used.tolist(), sums.tolist(), strict=True)})
    return dict(total.most_common())


def check_matches(comm_names: str | None, traces: Sequence[Trace]) -> None:
    """Raise OptionError for a rule that matches no kernel of any trace, with the names that are nearest to it."""
    if comm_names is None:
        return
    known = kernel_names(traces)
    if not known or any(comm_kernel_names(trace, comm_names) for trace in traces):
        return
    message = f"comm names {comm_names!r} match none of {plural(len(known), 'kernel name')}"
    raise OptionError(message, hint="; ".join(_names_near(comm_names, known)))


def _names_near(comm_names: str, known: Mapping[str, int]) -> list[str]:
    """What a rule that matched nothing may have meant, and what the traces spend their time in."""
    words = [word.lower() for word in _WORDS.findall(comm_names)]
    short = list(dict.fromkeys(function_name(name) for name in known))
    alike = {name: max((_alike(word, part) for word in words for part in _parts(name)), default=0.0) for name in short}
    near = sorted((name for name in short if alike[name] >= _ALIKE), key=lambda name: -alike[name])
    groups = (("the nearest", near), ("the longest", short))
    return [f"{which}: {', '.join(names[:_NAMED])}" for which, names in groups if names]


def _parts(name: str) -> list[str]:
    """The words of a name, AllReduce both as one and as two."""
    return [word.lower() for word in (*_WORDS.findall(name), *_CAMEL.findall(name))]


def _alike(word: str, part: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, word, part).ratio()


def _comm_rule(comm_names: str | None) -> Callable[[str], bool]:
    if comm_names is None:
        return lambda name: bool(_COMM_LIBRARY.search(name.lower()) or _COMM_KERNEL.match(function_name(name).lower()))
    pattern = re.compile(comm_names, re.IGNORECASE)
    return lambda name: bool(pattern.search(name))


# One spelling for collective operations of all recorders.

_ALL = re.compile(r"all_?(reduce|gather|to_?all)")


def collective_name(recorded: str) -> str:
    """As torch.distributed spells it: NCCL's record has "allreduce" beside torch's own "all_reduce"."""
    return _ALL.sub(lambda match: f"all_{match[1].replace('toall', 'to_all')}", recorded)


# The family of a kernel, by the table in perfmagic.trace.families.

# Triton 2's suffix: of each argument its number, c where it is 1, d where 16 divides it, e where 8 does
# Source: kernel_suffix in Triton's compiler
_TRITON_2 = re.compile(r"_0[cde]*(?:1[cde]*(?:2[cde\d]*)?)?$")
# Operators of torch and functions of libraries: what they run is no kernel of the user, even if no family knows it
_LIBRARY = re.compile(
    r"^(?:aten|prims|c10d|torchvision)::|^(?:void )?(?:at|at_cuda_detail|c10|cudnn|cub|thrust|cutlass|cask\w*|rocprim"
    r"|miopen|ck|ck_tile|fbgemm_gpu)::"
)


def find_family(kernel: str, operator: str = "") -> Family | None:
    """The family of a kernel launched by an operator ("": not known); None where no row of the table matches.

    >>> find_family("triton__0d1d2d3d").category.name
    'FUSED'
    """
    function = _TRITON_2.sub("", function_name(kernel))
    names = {Looks.OPERATOR: operator, Looks.FUNCTION: function, Looks.NAME: kernel}
    first = min(_FIRST_ROW[looks](name[:LONGEST_NAME].lower()) for looks, name in names.items())
    return FAMILIES[first] if first < len(FAMILIES) else None


def _first_row(looks: Looks) -> Callable[[str], int]:
    """What gives the first row that matches a name, of those that look at it: kernels share operators."""
    rows = [(at, row.pattern) for at, row in enumerate(FAMILIES) if row.looks is looks]
    return once_per_name(lambda name: next((at for at, pattern in rows if pattern.search(name)), len(FAMILIES)))


_FIRST_ROW = {looks: _first_row(looks) for looks in Looks}


def is_of_library(kernel: str, operator: str) -> bool:
    """Whether a library's namespace or an operator of torch says that a kernel is not the user's own."""
    return _LIBRARY.search(operator) is not None or _LIBRARY.search(kernel) is not None


# When Python fetched batches from a DataLoader.

# torch records `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` around the fetching of each batch
_LOADER = re.compile(r"DataLoader\w*(?:\)#\w+)?\.__next__")


def is_loader(name: str) -> bool:
    """Whether a name on the host is that of a DataLoader fetching a batch."""
    return _LOADER.search(name) is not None


def fetches(trace: Trace) -> HostOps:
    """What fetched a batch: an operator's mark, or a Python frame."""
    loaders = np.array([is_loader(name) for name in trace.names], bool)
    host = trace.host_ops
    marks = host.select(loaders[host.name] if len(host) else np.zeros(0, bool))
    return in_one_table(marks, trace.python_frames.named(loaders))


# Names that people read: shortened by structure, and so that names that differ never read the same. What all kernels of
# one function share goes first, what tells them apart stays; only then letters are cut. The short form depends on the
# whole set of names, so it is made once for a trace.

WIDTH = 48  # columns of a short name in a table of usual width, in a finding and on a card
NARROWEST = 8
CUT = "…"
MOST_OPTIONAL = 12  # arguments tried where there is room
Path = tuple[int, ...]
_PIECE = re.compile(r"(?<=[_/. ])|(?<=[a-z\d])(?=[A-Z])")  # words of a flat name, in snake or camel case
_ALWAYS = (Kind.FUNCTION, Kind.DTYPE)  # said also where all kernels of the function share them


@dataclass
class _Facet:
    """One thing that may be said: an argument of a template, or a word of a flat name."""

    text: str
    rank: tuple[int, ...]  # the most telling first
    usual: bool  # is said where there is room, also if it tells nothing apart


_tree = once_per_name(signature)  # ranks of one job have the same names


@dataclass
class _Name:
    """A name in its parts.  family: names of one family differ by their facets.

    needed: what tells it from its namesakes.  always: what is said in any case.
    """

    full: str
    family: str
    tree: Term | None
    facets: dict[Path | str, _Facet] = field(default_factory=dict)
    needed: set[Path | str] = field(default_factory=set)
    always: set[Path | str] = field(default_factory=set)


def short_names(names: Iterable[str], width: int = WIDTH, *, kernels: bool = True) -> dict[str, str]:
    """Shorten each name to a number of terminal columns; names stay distinct, brackets balanced.

    The text of a name depends on the whole set, not on its order. A name that fits is not cut; of a kernel's
    signature the arguments are dropped that its namesakes share.  kernels: False where the names are of something
    else, such as annotations, in which brackets mean nothing.

    >>> gemms = [f"void gemm<float, ns::Config<{n}, 64>, true>(float*)" for n in (128, 256)]
    >>> list(short_names(gemms).values())
    ['gemm<float, Config<128>>', 'gemm<float, Config<256>>']
    """
    max_columns = max(NARROWEST, width)
    distinct = sorted(set(names))
    families: dict[str, list[_Name]] = defaultdict(list)
    for full in distinct:
        name = _parsed(full, max_columns, kernels=kernels)
        families[name.family].append(name)
    texts: dict[str, str] = {}
    for members in families.values():
        _distinguish(members)
    _shorten_functions(families, max_columns)
    for members in families.values():
        shared = _shared(members) if len(members) > 1 else set()
        for name in members:
            texts[name.full] = _said(name, max_columns, shared)
    return _numbered(texts, max_columns)


def short_name(name: str, width: int = WIDTH) -> str:
    """One name for people, where it need not differ from others.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)")
    'vectorized_elementwise_kernel<4, add<float>>'
    """
    return short_names((name,), width)[name]


def _parsed(full: str, max_columns: int, *, kernels: bool) -> _Name:
    text = printable(full)
    if kernels and is_signature(text):
        tree = _tree(text)
        name = _Name(full, tree.head, tree)
        _facets_of(tree, (), Kind.FUNCTION, name)
        if name.facets or columns(tree.head) <= max_columns:
            return name
        text = tree.head
    elif columns(text) <= max_columns:
        return _Name(full, text, None)
    words = [word for word in _PIECE.split(text) if word]
    name = _Name(full, f"{words[0]}…" if len(words) > 2 else text, None)
    seen: dict[str, int] = defaultdict(int)
    for at, word in enumerate(words):
        key = re.match(r"\D*", word)[0]  # type: ignore[index]  # matches always
        seen[key] += 1
        place = f"{key} {seen[key]}"
        telling = words[0] == "triton_" and word.isdecimal() and at == len(words) - 1  # Triton counts its kernels
        name.facets[place] = _Facet(word, (0 if telling or key == "MT" else 1, at), True)
        name.always |= {place} if at == 0 else set()
    return name


def _shorten_functions(families: Mapping[str, Sequence[_Name]], max_columns: int) -> None:
    """Cut the names of functions that leave no room for what their kernels need."""
    long: dict[int, list[str]] = defaultdict(list)
    for family, members in families.items():
        limit = max_columns * 5 // 8 if any(name.needed | name.always for name in members) else max_columns
        if members[0].tree is not None and columns(family) > limit:
            long[limit].append(family)
    for limit, functions in long.items():
        for function, text in short_names(functions, limit, kernels=False).items():
            for name in families[function]:
                name.tree = replace(name.tree, head=text) if name.tree is not None else None


def _facets_of(term: Term, path: Path, least: Kind, name: _Name) -> None:
    """Every argument below a term by its place.  least: what is said of a plumbing's parts tells no more than that."""
    for at, argument in enumerate(term.args):
        place = (*path, at)
        kind = max(least, Kind.PLUMBING if argument.silent else argument.kind)
        usual = kind in _ALWAYS or (kind in (Kind.NUMBER, Kind.TYPE) and len(place) == 1)
        head_size = term.silent and len(place) == 2 and at == 0 and kind == Kind.NUMBER  # of attention
        name.facets[place] = _Facet(argument.head, (kind, len(place), *place), usual or head_size)
        if kind == Kind.FUNCTION and not name.always:
            name.always.add(place)  # what a general kernel computes
        _facets_of(argument, place, max(least, kind) if kind > Kind.FLAG and not argument.silent else least, name)


def _distinguish(members: list[_Name]) -> None:
    """Mark in each name what it takes to tell it from its namesakes: the most telling differences first."""
    groups = [members]
    while groups:
        group = groups.pop()
        if len(group) < 2:
            continue
        ranks: dict[Path | str, tuple[int, ...]] = {}
        values: dict[Path | str, set[str]] = defaultdict(set)
        count: dict[Path | str, int] = defaultdict(int)
        for name in group:
            for place, facet in name.facets.items():
                ranks[place] = min(facet.rank, ranks.get(place, facet.rank))
                values[place].add(facet.text)
                count[place] += 1
        differing = [p for p in ranks if len(values[p]) > 1 or count[p] < len(group)]
        if not differing:
            continue
        place = min(differing, key=lambda p: ranks[p])
        parts: dict[str | None, list[_Name]] = defaultdict(list)
        for name in group:
            name.needed.add(place)
            parts[name.facets[place].text if place in name.facets else None].append(name)
        groups += parts.values()


def _shared(members: Sequence[_Name]) -> set[Path | str]:
    """The places at which all names say the same."""
    first = members[0].facets
    return {
        place
        for place, facet in first.items()
        if all(place in name.facets and name.facets[place].text == facet.text for name in members)
    }


def _said(name: _Name, max_columns: int, shared: set[Path | str]) -> str:
    """The name with what is needed, and with what else fits."""
    if name.tree is None and not name.facets:
        return squeezed(printable(name.full), max_columns)
    chosen = {place for place in name.needed | name.always if place in name.facets}
    kinds = {place: facet.rank[0] for place, facet in name.facets.items()}
    usual = [p for p in name.facets if name.facets[p].usual]
    ranked = sorted(usual, key=lambda p: (name.tree is None and p in shared, name.facets[p].rank))
    tried = 0
    for place in ranked:
        if place in chosen or (name.tree is not None and place in shared and kinds[place] not in _ALWAYS):
            continue
        if _repeats(name, place, chosen):
            continue
        tried += 1
        if tried > MOST_OPTIONAL:
            break
        if columns(_rendered(name, chosen | {place})) <= max_columns:
            chosen.add(place)
        elif name.tree is None:
            break  # a crumb from further behind would say less than where it was cut
    return squeezed(_rendered(name, chosen), max_columns)


def _repeats(name: _Name, place: Path | str, chosen: set[Path | str]) -> bool:
    """Whether a type is said already, of an operand before it or by the function that is applied."""
    facet = name.facets[place]
    if facet.rank[0] != Kind.DTYPE or name.tree is None:
        return False
    return any(name.facets[other].text == facet.text for other in chosen)


def _rendered(name: _Name, chosen: set[Path | str]) -> str:
    if name.tree is not None:
        spaces = [name.facets[p].text for p in chosen if name.facets[p].rank[0] == Kind.NAMESPACE]
        paths = {p for p in chosen if isinstance(p, tuple) and name.facets[p].rank[0] != Kind.NAMESPACE}
        shown = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
        return "".join(f"{space}::" for space in spaces) + _term(name.tree, (), shown, paths)
    text, gap = "", False
    for place, facet in name.facets.items():
        if place in chosen:
            text += (CUT if gap and not text.endswith(CUT) else "") + facet.text
        gap = place not in chosen
    return text + (CUT if gap and not text.endswith(CUT) else "")


def _term(term: Term, path: Path, shown: set[Path], chosen: set[Path]) -> str:
    inner = [
        _term(argument, (*path, at), shown, chosen) for at, argument in enumerate(term.args) if (*path, at) in shown
    ]
    if term.silent and path not in chosen and inner:
        return ", ".join(inner)
    return f"{term.head}<{', '.join(inner)}>" if inner else term.head


def _numbered(texts: Mapping[str, str], max_columns: int) -> dict[str, str]:
    """The texts; where some are still the same, each with a number in the order of the full names."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for full, text in sorted(texts.items()):
        by_text[text].append(full)
    taken = {text for text, fulls in by_text.items() if len(fulls) == 1}
    numbered = {fulls[0]: text for text, fulls in by_text.items() if len(fulls) == 1}
    for text, fulls in by_text.items():
        number = 0
        for full in fulls if len(fulls) > 1 else ():
            candidate = ""
            while not candidate or candidate in taken:
                number += 1
                candidate = squeezed(text, max_columns - len(f" #{number}")) + f" #{number}"
            taken.add(candidate)
            numbered[full] = candidate
    return numbered
