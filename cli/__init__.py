"""One command `gpu-tenure` with a subcommand per component and tool: composition roots only."""
