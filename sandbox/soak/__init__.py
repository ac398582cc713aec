"""The soak: a reaper under random faults for minutes, held against what the simulated devices really did."""
