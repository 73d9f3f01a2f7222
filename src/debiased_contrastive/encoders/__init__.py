"""Images to features: ResNets, a small network for CPUs, the projector, the momentum copy."""
