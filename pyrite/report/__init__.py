"""Pictures and pages of what the other rooms found."""
