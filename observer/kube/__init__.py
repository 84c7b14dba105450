"""The Kubernetes API client core, imported only with --kubernetes."""
