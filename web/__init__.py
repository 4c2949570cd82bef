"""Longhaul's web pages and REST API, over the use cases of the appliance."""
