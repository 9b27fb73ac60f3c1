"""The pages that are made from the code: one module for each, one function that gives its text."""
