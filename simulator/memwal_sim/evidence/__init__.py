"""Why an exploration can be believed: certificates, the kill matrix, coverage of requests, and the gallery."""
