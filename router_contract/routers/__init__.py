"""One table per router: what its exposition says, by version. Data only."""
