"""Benchmarks, each beside its comparators in the same run; nothing of the product imports from here."""
