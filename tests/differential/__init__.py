"""Random user programs over the public API, as source text, and the ways to run them."""
