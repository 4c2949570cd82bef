"""Longhaul's web UI and REST API. Nothing here yet but the name: the daemon brings it."""
