"""A campaign of faults against the installed package: `python -m chaos --help`. No part of what is installed."""
