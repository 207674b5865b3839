"""DPH-RL workflow: diversity-preserving hybrid RL (arXiv 2509.07430) as a chain of auditable files."""
