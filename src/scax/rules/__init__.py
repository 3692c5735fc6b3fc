"""All that decides between steps: step size, carry, damping, curvature memory, acceptance."""
