"""Run directories in, one page out: tables, curves, embeddings. Never imports torch."""
