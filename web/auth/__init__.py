"""Who may ask what: tokens, sessions, throttling, and the headers of every answer."""
