"""Problems that are solved exactly: grid worlds, SNO-MDP, GLM-MASE."""
