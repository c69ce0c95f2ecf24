"""How long a kernel takes on a GPU, from its operator, shapes and types. Source: benchmarks/results/predict.md."""
