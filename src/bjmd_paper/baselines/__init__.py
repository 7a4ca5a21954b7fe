"""What BJMD is compared with: one file a method."""
