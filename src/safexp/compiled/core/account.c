/* The account of an episode: what is spent of every limit, and the thresholds for the next step. */

enum { STEADY, BUDGET, PHASES }; /* the same threshold at every step; what remains of a sum; one for each phase */

typedef struct {
    int kind, first, costs;      /* costs first to first + costs - 1 */
    int numbers;                 /* thresholds; limit and discount; or thresholds of every phase */
    int reading, signals;        /* its first reading, and the signals among them; 0 if the reading is the cost */
    int cost_max, sides;         /* tables: the largest cost; sign, limit and scale of every side */
    const int *which;            /* signal of every side */
    int phases;
    const long *starts;          /* first step of every phase */
} account_limit;

@LIMITS@

static void settle(shield_t *s)
{
    for (int p = 0; p < ACCOUNT_LIMITS; p++) {
        const account_limit *limit = account_limits + p;
        const real *numbers = s->model + limit->numbers;
        if (limit->kind == BUDGET) {
            real weight = larger(s->weight[p], LEAST_WEIGHT);
            s->thresholds[limit->first] = (numbers[0] - s->spent[p] + (real)TOLERANCE) / weight;
            continue;
        }
        int phase = 0;
        while (phase + 1 < limit->phases && limit->starts[phase + 1] <= s->step)
            phase++;
        for (int k = 0; k < limit->costs; k++)
            s->thresholds[limit->first + k] = numbers[phase * limit->costs + k];
    }
}

static void open_account(shield_t *s)
{
    s->step = 0;
    s->awaited = 0;
    s->has_last = 0;
    for (int p = 0; p < ACCOUNT_LIMITS; p++) {
        s->spent[p] = 0;
        s->weight[p] = 1;
    }
    settle(s);
}

/* Cost k of a limit in units of the largest one, from the readings; NaN if they are. */
static real cost_of(const shield_t *s, const account_limit *limit, int k, const real *readings)
{
    if (limit->signals == 0)
        return readings[limit->reading] / s->model[limit->cost_max];
    const real *sign = s->model + limit->sides, *at = sign + limit->costs, *scale = at + limit->costs;
    real signal = readings[limit->reading + limit->which[k]];
    real cost = (real)0.5 + sign[k] * (signal - at[k]) / (2 * scale[k]);
    return cost < 0 ? 0 : cost > 1 ? 1 : cost;
}

static int is_level(const shield_t *s, int k, real cost)
{
    const real *levels = s->model + level_tables[k];
    for (int i = 0; i < level_counts[k]; i++)
        if (FABS(cost - levels[i]) <= (real)LEVEL_TOLERANCE)
            return 1;
    return level_counts[k] == 0;
}

void shield_observe(shield_t *s, const real *readings)
{
    real missing[SHIELD_READINGS + 1];
    int bad = 0, signal = 0, rounded = !s->unrounded;
    if (readings == NULL) {
        for (int i = 0; i < SHIELD_READINGS; i++)
            missing[i] = (real)NAN;
        readings = missing;
    }
    for (int p = 0; p < ACCOUNT_LIMITS; p++) {
        const account_limit *limit = account_limits + p;
        for (int i = 0; i < limit->signals && signal < SHIELD_SIGNALS; i++)
            s->signals[signal++] = readings[limit->reading + i];
        for (int k = 0; k < limit->costs; k++) {
            real cost = cost_of(s, limit, k, readings);
            bad = bad || !(cost >= 0 && cost <= 1);
        }
    }
    for (int p = 0; p < ACCOUNT_LIMITS; p++) {
        const account_limit *limit = account_limits + p;
        for (int k = 0; k < limit->costs; k++) {
            real cost = cost_of(s, limit, k, readings);
            if (!bad && rounded && !is_level(s, limit->first + k, cost))
                s->unrounded = 1;
            if (limit->kind == BUDGET) {
                s->spent[p] += s->weight[p] * (cost >= 0 ? cost : 1); /* what cannot be read counts as the largest */
                s->weight[p] *= s->model[limit->numbers + 1];
            }
        }
    }
    s->bad_costs += bad || (rounded && s->unrounded);
    s->step++;
    s->awaited = 0;
    settle(s);
}
