"""Reports: statistics, tables and figures. They read what was written and import no JAX."""
