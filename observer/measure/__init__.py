"""From bytes to numbers: expositions, windows, histograms, KV blocks. Pure: no I/O, no clock, no logging."""
