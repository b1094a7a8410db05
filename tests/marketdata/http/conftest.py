"""The fixtures of the data API, whose listener these tests use."""

from tests.marketdata.api.conftest import database, read_token, service, service_settings, write_token

__all__ = ["database", "read_token", "service", "service_settings", "write_token"]
