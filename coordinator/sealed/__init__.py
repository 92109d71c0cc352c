"""Files sealed with the deployment's storage key."""
