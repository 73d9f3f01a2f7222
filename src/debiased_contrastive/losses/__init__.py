"""The losses that training loops call."""
