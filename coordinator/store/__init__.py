"""All SQL of the coordinator. It stores no share and no reading: there is no table for one."""
