"""The command line `mac`."""
