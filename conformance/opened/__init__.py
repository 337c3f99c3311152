"""Checkpoints that other engines make, opened here and decoded by their own loaders beside."""
