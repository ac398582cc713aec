"""The admission webhook: terms and deadlines on GPU pods when they are created."""
