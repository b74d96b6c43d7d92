"""Flow control: one small pure decision per policy, from its configuration and counted facts."""
