"""Groups of flows over a shared bottleneck: the program of both ends (`receiver`, `sender`), and how a cell runs it."""
