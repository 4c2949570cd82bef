"""Where commands run, and the TCP settings there."""
