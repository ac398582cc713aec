"""What is wrong with an installation, and what to do: facts are read once, checks are pure."""
