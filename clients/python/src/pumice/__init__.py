"""Client of the Pumice batch scheduler."""
