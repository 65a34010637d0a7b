/* The decision about a proposal in a box: itself if it is certified, or the nearest certified candidate. */

typedef struct {
    int found, vouched;
    real ranking, action[ACTIONS], bounds[SHIELD_COSTS];
} offer;

/* Keep the best action so far; of equal ones the first. Returns whether this one is. */
static int consider(offer *best, real ranking, const real *action, int stride, const real *bounds, int lanes)
{
    real rank = isnan(ranking) ? largest(bounds, lanes) : ranking;
    if (best->found && !(rank < best->ranking))
        return 0;
    best->found = 1;
    best->vouched = 0;
    best->ranking = rank;
    for (int i = 0; i < ACTIONS; i++)
        best->action[i] = action[i * stride];
    for (int k = 0; k < SHIELD_COSTS; k++)
        best->bounds[k] = bounds[k * lanes];
    return 1;
}

static void consider_candidates(shield_t *s, int demanding, const real *proposal, const real *thresholds, offer *best)
{
    real bounds[SHIELD_COSTS * LANES], work[ACTIONS];
    for (int block = 0; block < BLOCKS; block++) {
        const real *values = s->model + CANDIDATES + block * ACTIONS * LANES;
        action_set a = {LANES, block, values};
        bounds_where_demanded(s, demanding, &a, bounds);
        for (int l = 0; l < LANES && block * LANES + l < CANDIDATE_COUNT; l++) {
            real far = distance(s, values + l, LANES, proposal, work);
            if (within(bounds + l, LANES, thresholds))
                consider(best, far, values + l, LANES, bounds + l, LANES);
        }
    }
}

/* The last safe action is a further candidate; entries that are NaN are those of the first one. */
static void consider_last(shield_t *s, int demanding, const real *last_safe, const real *proposal,
                          const real *thresholds, offer *best)
{
    real last[ACTIONS], bounds[SHIELD_COSTS], work[ACTIONS];
    encode_action(s, last_safe, last);
    for (int i = 0; i < ACTIONS; i++)
        if (isnan(last[i]))
            last[i] = s->model[CANDIDATES + i * LANES];
    action_set a = {1, -1, last};
    bounds_where_demanded(s, demanding, &a, bounds);
    real far = distance(s, last, 1, proposal, work);
    if (within(bounds, 1, thresholds))
        consider(best, far, last, 1, bounds, 1);
}

/* Go from the replacement towards the proposal as far as is certified; a proposal that is not a number is ignored. */
static void approach(shield_t *s, int demanding, const real *proposal, const real *thresholds, offer *best)
{
    real start[ACTIONS], tried[ACTIONS], bounds[SHIELD_COSTS];
    int nearer = 0;
    for (int i = 0; i < ACTIONS; i++)
        start[i] = best->action[i];
    for (int k = 0; k < APPROACH; k++) { /* all of them, so that every replacement takes the same time */
        for (int i = 0; i < ACTIONS; i++) {
            real way = proposal[i] - start[i];
            tried[i] = start[i] + (isnan(way) ? 0 : way) * s->model[WAYS + k];
        }
        encode_action(s, tried, tried);
        action_set a = {1, -1, tried};
        bounds_where_demanded(s, demanding, &a, bounds);
        if (nearer || !within(bounds, 1, thresholds))
            continue;
        nearer = 1;
        best->vouched = 0;
        for (int i = 0; i < ACTIONS; i++)
            best->action[i] = tried[i];
        for (int c = 0; c < SHIELD_COSTS; c++)
            best->bounds[c] = bounds[c];
    }
}

#if VOUCHED
static void consider_vouched(const shield_t *s, const real *proposal, offer *best)
{
    const real *action = s->model + VOUCHED_ACTION;
    real none[SHIELD_COSTS] = {0}, work[ACTIONS];
    real far = distance(s, action, 1, proposal, work);
    if (consider(best, far, action, 1, none, 1))
        best->vouched = 1;
}
#endif

static void decide(shield_t *s, int demanding, const real *proposal, const real *thresholds, const real *last_safe,
                   shield_decision *decision)
{
    real encoded[ACTIONS], bounds[SHIELD_COSTS];
    int finite = 1;
    offer best = {0};
    encode_action(s, proposal, encoded);
    for (int i = 0; i < ACTIONS; i++)
        finite = finite && isfinite(encoded[i]);
    action_set a = {1, -1, encoded};
    bounds_where_demanded(s, demanding, &a, bounds);
    for (int i = 0; i < ACTIONS; i++)
        best.action[i] = encoded[i];
    for (int k = 0; k < SHIELD_COSTS; k++)
        best.bounds[k] = bounds[k];
    decision->outcome = SHIELD_PROPOSAL;
    if (!(finite && within(bounds, 1, thresholds))) {
        if (demanding)
            prepare_all(s);
        consider_candidates(s, demanding, encoded, thresholds, &best);
        if (last_safe != NULL)
            consider_last(s, demanding, last_safe, encoded, thresholds, &best);
#if VOUCHED
        consider_vouched(s, encoded, &best);
#endif
        if (best.found)
            approach(s, demanding, encoded, thresholds, &best);
        decision->outcome = best.found ? SHIELD_REPLACEMENT : SHIELD_NOTHING_SAFE;
    }
    decision->vouched = best.vouched;
    for (int i = 0; i < ACTIONS; i++)
        decision->action[i] = best.action[i];
    for (int k = 0; k < SHIELD_COSTS; k++)
        decision->upper_bound[k] = best.bounds[k];
}
