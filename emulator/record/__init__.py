"""Records a real path and replays it on a lane.

`recorder`, `rate`, `recording` probe a path; `probes`, `delay`, `loss`, `gap_fit` say what was seen; `path_profile` and
`file` keep it; `replay` plays it on a lane. May import: everything up to experiment. Never here: printing.
"""
