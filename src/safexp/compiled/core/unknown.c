/* Nothing is known. */
static void unknown(int values, const action_set *a, real *mean, real *width)
{
    for (int i = 0; i < values * a->lanes; i++) {
        mean[i] = 0;
        width[i] = INFINITY;
    }
}
