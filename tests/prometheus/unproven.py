"""Panels that no scenario of the simulated fleet gives data, each with the reason. At most five."""

UNPROVEN: dict[str, str] = {
    "observer-canary / Traffic that was programmed": "no controller programs the traffic of a simulated fleet",
    "observer-kv / Malformed messages": "simulated publishers send no message that is no batch; the counter begins with the first",
    "observer-roles / Histograms that cannot be merged": "engines of a simulated role have the same bucket bounds",
    "observer-self / Samples that could not be used": "simulated expositions have no sample that cannot be used",
}
