"""One table per inference engine: what its exposition says, by version. Data only."""
