"""Reading targets over the network: the thin shell around the pure core."""
