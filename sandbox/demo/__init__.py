"""The demo: the main job and its incidents on the sandbox, checked against a table of expected outcomes."""
