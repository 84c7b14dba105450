"""One table per KV-cache store: what its exposition says, by version. Data only."""
