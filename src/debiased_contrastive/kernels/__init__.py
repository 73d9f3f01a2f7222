"""Embeddings to statistics: dense, tiled with a recomputing backward, across processes."""
