"""The version of this repository: both distributions and all services have it."""

VERSION = "0.1.0"
