"""Images (Section 5.1): SimCLR with a batch or a queue, and contrastive multiview coding."""
