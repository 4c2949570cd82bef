"""Longhaul's web pages and REST API, on top of the appliance's use cases."""
