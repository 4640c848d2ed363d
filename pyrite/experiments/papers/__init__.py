"""The recipes of the papers' tables and figures, one TOML file each, and the claims."""
