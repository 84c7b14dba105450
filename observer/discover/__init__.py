"""Who exists: static files and, later, platforms. Each discoverer yields the whole set of deployments."""
