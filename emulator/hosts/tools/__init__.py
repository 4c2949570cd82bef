"""The programs that measure, each with its parser: ping, irtt, iperf3, ss, nstat; and frames of our own."""
