"""Settings of all property tests: the same examples each time, however slow the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "kvproof",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kvproof")
