"""The contract, pure: what a GPU pod may hold, for how long, and how it loses it; does no I/O."""
