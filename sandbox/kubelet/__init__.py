"""Runs the pods of our own namespace as processes, and their Services, so that what is installed works."""
