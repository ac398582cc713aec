"""Lets `python -m cli` be the command `gpu-tenure`. It must not know anything else."""

from cli.main import main

main()
