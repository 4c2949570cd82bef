"""The REST API: the table of endpoints, what they read and answer, and the OpenAPI document made of it."""
