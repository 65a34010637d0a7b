"""Algorithm 1 around any learner of Stable-Baselines3, and the baselines that it is compared with."""
