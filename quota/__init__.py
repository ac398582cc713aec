"""Keeps the ledgers of GPUQuotas true: counts the pods that exist, releases what was reserved for them."""
