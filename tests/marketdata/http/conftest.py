"""The fixtures of the data API, whose listener these tests use."""

from tests.marketdata.api.conftest import read_token, service, service_settings, write_token

__all__ = ["read_token", "service", "service_settings", "write_token"]
