"""What people do with the identity and the tokens of a service: routes and pages of all three."""
