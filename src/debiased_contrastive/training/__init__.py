"""The loop, its checkpoints and exact resume."""
