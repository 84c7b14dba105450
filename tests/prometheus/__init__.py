"""Tests with a real Prometheus and promtool."""
