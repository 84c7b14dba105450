"""Tests of what dashboards and rules are, without a Prometheus."""
