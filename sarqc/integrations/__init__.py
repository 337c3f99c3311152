"""Saliency as a plugin of other engines. A module has the name of the engine that it needs, and of sarqc it needs only
what needs nothing but torch; the programs that use it are written by ``sarqc.extras.engines``.
"""
