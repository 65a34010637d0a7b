/* One-sided limits on signals: cost ½ + sign (signal − limit) / (2 scale). */

typedef struct {
    int sides, numbers; /* table of sign, limit and scale for every side */
    const int *which;   /* the signal of every side */
} side_limits;

static void side_costs(const side_limits *p, const shield_t *s, const action_set *a, const real *signal,
                       const real *spread, real *mean, real *width)
{
    const real *sign = s->model + p->numbers, *limit = sign + p->sides, *scale = limit + p->sides;
    for (int k = 0; k < p->sides; k++)
        for (int l = 0; l < a->lanes; l++) {
            int from = p->which[k] * a->lanes + l, to = k * a->lanes + l;
            mean[to] = (real)0.5 + sign[k] * (signal[from] - limit[k]) / (2 * scale[k]);
            width[to] = spread[from] / (2 * scale[k]);
        }
}
