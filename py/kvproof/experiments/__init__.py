"""What is measured on the model: masks compared, blind spots, counts, proofs, evidence."""
