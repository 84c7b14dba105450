"""A fleet of engines and routers on loopback that speaks the real wire formats."""
