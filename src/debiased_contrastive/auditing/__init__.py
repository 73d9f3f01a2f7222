"""How much sampling bias there is in given embeddings, and what to do about it."""
