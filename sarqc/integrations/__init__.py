"""Saliency as a plugin of other engines. A module has the name of the engine that it needs, and needs only those
modules of sarqc that need nothing but torch; the programs that use it are written by ``sarqc.extras.engines``."""
