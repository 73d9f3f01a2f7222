"""What is tau_plus here: estimators of the class prior from labels, from similarities, from embeddings."""
