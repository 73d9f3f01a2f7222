"""The paper's figures and tables, one file each, and the runner that fills them."""
