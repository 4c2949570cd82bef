"""The REST API: the table of endpoints, their requests and responses, and the OpenAPI document built from them."""
