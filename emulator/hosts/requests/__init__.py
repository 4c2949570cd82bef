"""Requests and answers over a lane: the program of both ends (`wire`, `server`, `client`), and how a cell runs it."""
