"""Learning from stores: train a cost model, judge it on what it has not seen, promote it."""
