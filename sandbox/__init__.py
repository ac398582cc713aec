"""A real control plane on one machine, for the demo, the tests and people who want to play."""
