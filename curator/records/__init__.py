"""Records of the owner's tables, for jobs over curators."""
