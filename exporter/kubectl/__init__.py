"""``kubectl mgpu``: the commands for people, from a user's machine with his kubeconfig."""
