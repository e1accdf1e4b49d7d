"""Features of scheduled nests on CPUs: one matrix a population, no candidate is lowered."""
