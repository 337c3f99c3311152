"""Quality against what people would pick instead: other engines in environments of their own, one evaluator for all."""
