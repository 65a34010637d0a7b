/* Decisions for callers, with all checks. */

void shield_init(shield_t *s, const real *fallback)
{
    static const shield_t blank = {0};
    *s = blank;
    s->model = MODEL;
    for (int i = 0; i < SHIELD_ACTION; i++)
        s->fallback[i] = fallback == NULL ? 0 : fallback[i];
    for (int k = 0; k < SHIELD_COSTS; k++)
        s->thresholds[k] = -INFINITY; /* nothing is allowed before an episode begins */
}

shield_outcome shield_filter(shield_t *s, const real *observation, const real *measured, const real *proposal,
                             const real *thresholds, const real *last_safe, shield_decision *decision)
{
    int demanding = 0;
    const real *limits = thresholds == NULL ? s->thresholds : thresholds;
    for (int k = 0; k < SHIELD_COSTS; k++)
        decision->upper_bound[k] = INFINITY;
    for (int i = 0; i < SHIELD_ACTION; i++)
        decision->action[i] = s->fallback[i];
    decision->vouched = 0;
    for (int k = 0; k < SHIELD_COSTS; k++) {
        if (isnan(limits[k]))
            return decision->outcome = SHIELD_BAD_THRESHOLD;
        demanding = demanding || limits[k] < (real)MOST;
    }
    if (!encode_observation(s, observation) || !place_signals(s, observation, measured))
        return decision->outcome = SHIELD_BAD_OBSERVATION;
    if (!IS_ACTION(proposal))
        return decision->outcome = SHIELD_BAD_PROPOSAL;
    if (demanding)
        prepare(s);
    decide(s, demanding, proposal, limits, last_safe, decision);
#if BACKUP
    if (decision->outcome == SHIELD_NOTHING_SAFE) {
        backup_act(s, observation, decision->action);
        decision->outcome = SHIELD_BACKUP;
    }
#endif
    return decision->outcome;
}

/* Read the signals that are in an observation; 0 if one is still unknown. */
static int measure(shield_t *s, const real *observation)
{
    int known = 1;
    for (int k = 0; k < SHIELD_SIGNALS; k++) {
        if (signal_entries[k] >= 0 && !isnan(observation[signal_entries[k]]))
            s->signals[k] = observation[signal_entries[k]];
        known = known && isfinite(s->signals[k]);
    }
    return known;
}

int shield_reset(shield_t *s, const real *observation, const real *measured)
{
    open_account(s);
    for (int k = 0; k < SHIELD_SIGNALS; k++)
        s->signals[k] = measured != NULL ? measured[k] : (real)NAN;
    return measured != NULL || measure(s, observation);
}

/* The decision about a proposal, under the thresholds of the account. */
static shield_outcome answer(shield_t *s, const real *observation, const real *proposal, shield_decision *decision)
{
    real thresholds[SHIELD_COSTS];
    if (!fits(s, observation) || !measure(s, observation))
        return SHIELD_BAD_OBSERVATION;
    for (int i = 0; i < SHIELD_ACTION; i++)
        if (!isfinite(proposal[i]))
            return SHIELD_BAD_PROPOSAL;
    for (int k = 0; k < SHIELD_COSTS; k++)
        thresholds[k] = s->thresholds[k] - s->model[BRAKING];
    return shield_filter(s, observation, SHIELD_SIGNALS > 0 ? s->signals : NULL, proposal, thresholds,
                         s->has_last ? s->last : NULL, decision);
}

shield_outcome shield_act(shield_t *s, const real *observation, const real *proposal, real *action)
{
    shield_decision decision = {SHIELD_BAD_OBSERVATION, 0, {0}, {0}};
    if (s->awaited) {
        real readings[SHIELD_READINGS + 1] = {0};
        int observed = ALL_OBSERVED && fits(s, observation);
        for (int k = 0; k < SHIELD_SIGNALS && observed; k++)
            readings[k] = observation[signal_entries[k]];
        shield_observe(s, observed ? readings : NULL);
    }
    shield_outcome outcome = answer(s, observation, proposal, &decision);
    for (int i = 0; i < SHIELD_ACTION; i++) {
        action[i] = outcome < SHIELD_NOTHING_SAFE ? decision.action[i] : s->fallback[i];
        s->last[i] = action[i];
    }
    s->has_last = 1;
    s->awaited = 1;
    s->counts[outcome]++;
    return outcome;
}
