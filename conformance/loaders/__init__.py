"""Who can load an exported checkpoint, found out: ``python -m conformance.loaders`` (``make loaders``)."""
