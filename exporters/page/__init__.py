"""The web page: what people look at. Rendered here, live by server-sent events, each page with a JSON twin."""
