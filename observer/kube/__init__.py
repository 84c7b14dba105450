"""The Kubernetes API client core, imported only with --kubernetes.

Pure decisions (`answers`, `pacing`, `records`, `cache`, `watching`, `intent`, `writing`, `electing`, `schemas`) and the
thin I/O that follows them (`credentials`, `client`, `informer`, `status_writer`, `elector`).
"""
