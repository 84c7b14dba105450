"""Words and values shared by everything that watches, measures, judges or publishes.

This package owns the names: what an engine, a router or a cache store says (tables in ``engines``, ``routers``,
``stores``), what we call it (``signals``), and the frozen values that cross folder boundaries. It performs no I/O,
reads no clock and imports nothing of ours.
"""
