"""Access control: tokens, sessions, throttling, and the headers of every answer."""
