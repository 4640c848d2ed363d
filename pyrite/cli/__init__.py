"""The command line: one command per file; each parses, calls one library function and prints."""
