"""Frozen features to numbers: probes, neighbours, class means, geometry."""
