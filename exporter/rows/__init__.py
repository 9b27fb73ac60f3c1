"""The facts once more as rows. It goes when all readers read facts."""
