"""Takes GPUs back from idle pods: observe, judge, plan, re-check, act, report."""
