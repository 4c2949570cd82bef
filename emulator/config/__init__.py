"""Converts files and requests to the model and back: YAML with line numbers, the schemas, partial changes of a lane.

May import: errors, units, system, model. Only this room, recordings and the API know pydantic. Never here: what the
kernel makes of an intent.
"""
