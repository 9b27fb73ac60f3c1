"""What people see, however it looks: the tree of a node, marks, words."""
