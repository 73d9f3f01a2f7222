"""What is known about classes, as probabilities that two samples share one."""
