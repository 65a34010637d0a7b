/* Discrete actions: numbers counted from ACTION_START. */
