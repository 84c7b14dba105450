"""Canary analysis in small pure steps. `evaluate.evaluate` is the whole; `clocks.due_in` says when to take a sample."""
