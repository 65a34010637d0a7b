/* The cost of a margin: 0 where it is surely above 0, 1 where it is surely below, and unknown elsewhere. */
static void margin_costs(const action_set *a, real *mean, real *width)
{
    for (int l = 0; l < a->lanes; l++) {
        real unsure = FABS(mean[l]) > width[l] ? 0 : (real)0.5;
        if (isnan(mean[l] + width[l]))
            unsure = (real)NAN;
        mean[l] = mean[l] < -width[l] ? 1 : unsure;
        width[l] = unsure;
    }
}
