"""Canary analysis in small pure steps."""
