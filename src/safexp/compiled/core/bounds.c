/* Bounds of costs; what cannot be predicted is unsafe. */

/* Round a bound down to the largest of its levels. */
static real to_level(const shield_t *s, int k, real bound)
{
    const real *levels = s->model + level_tables[k];
    int count = level_counts[k], above = 0;
    while (above < count && levels[above] <= bound + (real)LEVEL_TOLERANCE)
        above++;
    return count == 0 ? bound : levels[above > 0 ? above - 1 : 0];
}

/* min(most, mean + width) of every cost, bounds[cost * lanes + lane]; infinite where there is no prediction. */
static void bounds_of(shield_t *s, const action_set *a, real *bounds)
{
    real mean[SHIELD_COSTS * LANES], width[SHIELD_COSTS * LANES];
    predict(s, a, mean, width);
    for (int i = 0; i < SHIELD_COSTS * a->lanes; i++) {
        real bound = larger(mean[i] + width[i], 0);
        bound = bound < (real)MOST ? bound : (real)MOST;
        if (!s->unrounded)
            bound = to_level(s, i / a->lanes, bound);
        bounds[i] = isfinite(mean[i]) && width[i] >= 0 ? bound : INFINITY;
    }
}

/* Where every threshold is at least the largest cost, everything is allowed and nothing has to be predicted. */
static void bounds_where_demanded(shield_t *s, int demanding, const action_set *a, real *bounds)
{
    if (demanding)
        bounds_of(s, a, bounds);
    else
        for (int i = 0; i < SHIELD_COSTS * a->lanes; i++)
            bounds[i] = (real)MOST;
}

/* Whether all bounds of one action are within their thresholds. */
static int within(const real *bounds, int stride, const real *thresholds)
{
    for (int k = 0; k < SHIELD_COSTS; k++)
        if (!(bounds[k * stride] <= thresholds[k]))
            return 0;
    return 1;
}

static real largest(const real *bounds, int stride)
{
    real found = bounds[0];
    for (int k = 1; k < SHIELD_COSTS; k++)
        found = larger(found, bounds[k * stride]);
    return found;
}
