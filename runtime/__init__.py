"""Plumbing shared by the components: API, watches, logs, settings. Knows nothing of their decisions."""
