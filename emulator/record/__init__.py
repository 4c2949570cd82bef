"""Recording a real path, and playing it on a lane.

recorder   probes over a path, by ping or irtt; rate: iperf3, where asked for; session: one recording, start to end
probes     what was sent and what came back: lines of a file that grows, and the two directions that they tell of
delay      delays as a table for netem, and how sure their quantiles are
loss       loss models fitted by maximum likelihood, the best of them chosen; goodness: how well it fits
profile    all of it as impairments of both directions; file, forms: on disk; likeness: are two of the same path?
replay     onto a lane: the statistics, or the trace as a schedule
"""
