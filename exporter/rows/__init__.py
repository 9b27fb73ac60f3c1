"""What pages show of the ledger: the read model, built when a reader asks for it.

Pure: built from a frozen ledger and the facts of one cycle. It never changes the ledger.
"""
