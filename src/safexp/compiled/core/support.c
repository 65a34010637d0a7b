/* Range of the data: the factor by which widths grow outside it, infinite where nothing is known. */

typedef struct {
    int state, states, actions;              /* where the state is, and the numbers of entries */
    int low, high, least, most, rate, reach; /* tables */
    int shared;                              /* distance of the state from the range */
} support;

/* Largest distance of values from their range, in standard deviations. */
static real outside(const support *p, const real *m, int first, int count, const real *values, int stride)
{
    real worst = 0;
    for (int i = 0; i < count; i++) {
        int k = first + i;
        real value = values[i * stride];
        real beyond = larger(larger(m[p->low + k] - value, value - m[p->high + k]), 0) * m[p->rate + k];
        if (value < m[p->least + k] || value > m[p->most + k])
            beyond = INFINITY;
        worst = larger(worst, beyond);
    }
    return worst;
}

static inline void support_state(const support *p, shield_t *s)
{
    s->memory[p->shared] = outside(p, s->model, 0, p->states, s->memory + p->state, 1);
}

static inline void support_widen(const support *p, const shield_t *s, const action_set *a, real *width)
{
    for (int l = 0; l < a->lanes; l++) {
        real beyond = outside(p, s->model, p->states, p->actions, a->values + l, a->lanes);
        beyond = larger(s->memory[p->shared], beyond);
        width[l] *= 1 / larger(1 - beyond / s->model[p->reach], 0);
    }
}
