/*
 * The decision about one of finitely many actions: itself if it is certified, or the certified one that changes the
 * fewest of its entries, and of these the one with the smallest bound.
 */

/* Rank of a safe replacement; the smallest is chosen. */
static real rank_of(int action, int proposed, real bound)
{
#if SEVERAL_ENTRIES
    bound = (real)changed_entries(action, proposed) + bound / (1 + FABS(bound)) / 2;
#else
    (void)action;
    (void)proposed;
#endif
    return isfinite(bound) ? bound : INFINITY;
}

static void decide(shield_t *s, int demanding, const real *proposal, const real *thresholds, const real *last_safe,
                   shield_decision *decision)
{
    int proposed = choice_of(proposal), chosen = -1;
    real bounds[SHIELD_COSTS * LANES], least = 0;
    (void)last_safe; /* all actions are candidates */
    decision->outcome = SHIELD_NOTHING_SAFE;
    decision->vouched = 0;
    if (demanding)
        prepare_all(s);
    for (int block = 0; block < BLOCKS; block++) {
        action_set a = {LANES, block, s->model + CANDIDATES + block * ACTIONS * LANES};
        bounds_where_demanded(s, demanding, &a, bounds);
        for (int l = 0; l < LANES && block * LANES + l < CANDIDATE_COUNT; l++) {
            int action = block * LANES + l, safe = within(bounds + l, LANES, thresholds);
#if VOUCHED
            if (action == VOUCHED_CHOICE) {
                safe = 1;
                for (int k = 0; k < SHIELD_COSTS; k++)
                    bounds[k * LANES + l] = 0;
            }
#endif
            real rank = rank_of(action, proposed, largest(bounds + l, LANES));
            int better = safe && chosen != proposed && (action == proposed || chosen < 0 || rank < least);
            if (better || (action == proposed && chosen < 0)) {
                for (int k = 0; k < SHIELD_COSTS; k++)
                    decision->upper_bound[k] = bounds[k * LANES + l];
            }
            if (better) {
                chosen = action;
                least = rank;
            }
        }
    }
    if (chosen >= 0)
        decision->outcome = chosen == proposed ? SHIELD_PROPOSAL : SHIELD_REPLACEMENT;
#if VOUCHED
    decision->vouched = chosen == VOUCHED_CHOICE;
#endif
    write_choice(chosen >= 0 ? chosen : proposed, decision->action);
}
