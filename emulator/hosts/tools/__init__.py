"""The measuring programs, each with its parser: ping, irtt, iperf3, ss, nstat; and Longhaul's own frames."""
