"""What a device op is for, and the words for it."""

from __future__ import annotations

import enum


class Category(enum.IntEnum):
    """What a device op is for."""

    GEMM = 0
    ATTENTION = 1  # fused attention: products and softmax in one kernel
    CONVOLUTION = 2
    NORMALISATION = 3  # batch, layer, group and RMS norm
    ELEMENTWISE = 4  # a value from values at the same place: activations, copies by kernels, concatenation
    REDUCTION = 5  # sums, means, softmax, argmax, scans, losses
    EMBEDDING = 6  # table lookups, gathering and scattering by index, writes to a KV cache
    ROUTING = 7  # mixture of experts: choosing experts, grouping tokens by expert, combining what experts gave
    SORTING = 8  # sorting, top-k, nonzero, unique, sampling of tokens
    POOLING = 9  # pooling, interpolation
    LINALG = 10  # factorisations, solvers, Fourier transforms
    OPTIMIZER = 11
    FUSED = 12  # several operators in one kernel that a compiler wrote
    COMMUNICATION = 13
    COPY = 14
    MEMSET = 15
    CUSTOM = 16  # no family knows it, and no operator of a library launched it: a kernel of the user
    OTHER = 17


CATEGORY_WORDS = {
    Category.GEMM: "matrix products",
    Category.ATTENTION: "attention",
    Category.CONVOLUTION: "convolution",
    Category.NORMALISATION: "normalisation",
    Category.ELEMENTWISE: "elementwise",
    Category.REDUCTION: "reductions and softmax",
    Category.EMBEDDING: "embedding and indexing",
    Category.ROUTING: "MoE routing",
    Category.SORTING: "sorting and selection",
    Category.POOLING: "pooling and resampling",
    Category.LINALG: "linear algebra",
    Category.OPTIMIZER: "optimizer",
    Category.FUSED: "fused by a compiler",
    Category.COMMUNICATION: "communication",
    Category.COPY: "copies",
    Category.MEMSET: "memset",
    Category.CUSTOM: "custom kernels",
    Category.OTHER: "other",
}
