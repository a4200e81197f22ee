"""The measuring side of the benchmarks: cells and goals, worker processes, rounds, reports. Standard library only."""
