"""Values that the store and several rooms of the coordinator share."""
