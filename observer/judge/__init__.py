"""From numbers to verdicts with reasons. Pure: no I/O, no clock, no logging."""
