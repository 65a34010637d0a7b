/* The policy without its shield: the deterministic action in an observation, under the thresholds of the account. */

void shield_policy(shield_t *s, const real *observation, real *action)
{
    const real *m = s->model;
    real *x = s->memory + POLICY_MEMORY, *one = x + POLICY_INPUTS, *other = one + POLICY_WIDEST;
    for (int i = 0; i < SHIELD_OBSERVATION; i++)
        x[i] = narrow(observation[i]);
    for (int k = 0; k < POLICY_INPUTS - SHIELD_OBSERVATION; k++)
        x[SHIELD_OBSERVATION + k] = smaller(larger(s->thresholds[k] / m[POLICY_LARGEST + k], 0), 1);
    const real *y = network(policy_layers, POLICY_LAYERS, m, 1, x, one, other);
#if POLICY_DISCRETE
    int best = 0;
    for (int i = 1; i < POLICY_DISCRETE; i++)
        if (y[i] > y[best])
            best = i;
    *action = (real)(best + action_starts[0]);
#else
    for (int i = 0; i < SHIELD_ACTION; i++) {
        real low = m[ACTION_LOW + i], high = m[ACTION_HIGH + i];
        real value = POLICY_SQUASHED ? low + (y[i] + 1) * ((high - low) / 2) : y[i];
        action[i] = smaller(larger(value, low), high);
    }
#endif
}
