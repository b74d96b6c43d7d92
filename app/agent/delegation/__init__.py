"""Work given to sub-agents, and tracked work that is looked after."""
