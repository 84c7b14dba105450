"""Publishing: Prometheus, JSON documents, HTTP. Declares the protocols it needs and never imports the observer."""
