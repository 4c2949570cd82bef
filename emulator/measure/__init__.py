"""The field's own tools as argv and pure parsers: ping, iperf3, ss, and the kernel's counters."""
