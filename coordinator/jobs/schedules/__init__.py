"""Jobs that repeat: one ordinary job for each period that is over."""
