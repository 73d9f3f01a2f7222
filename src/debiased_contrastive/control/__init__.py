"""Agents that learn from pixels (Section 5.3): CURL on tasks of the DeepMind control suite."""
