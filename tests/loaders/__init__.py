"""Who can load an exported checkpoint, found out: ``python -m tests.loaders`` (``make loaders``)."""
