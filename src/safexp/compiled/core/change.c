/*
 * Signals after a step: those of now, plus a linear trend; its width, and one that grows with the distance from the data.
 * Regressions of what the trend leaves over are added by change_add.
 */

typedef struct {
    int state, states, actions, signals, now;    /* where inputs and signals are, and numbers of entries */
    int columns;                                 /* padded columns of a root */
    int shift, scale;                            /* tables of the inputs, the state's first */
    int state_means, action_means, constants;    /* the trend's weights, [entry][signal] */
    int state_roots, action_roots, root_constants; /* roots of its covariance, one set of tiles for every signal */
    int numbers;                                 /* (multiplier, tested, radius), least widths, slopes */
    int shared;                                  /* means, and spreads */
} signal_change;

static real linear_sum(const real *weights, int count, int stride, const real *x)
{
    real sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * weights[i * stride];
    return sum;
}

static void change_state(const signal_change *p, shield_t *s)
{
    const real *m = s->model;
    real *x = s->memory + SCRATCH, *shared = s->memory + p->shared;
    standardise(m, p->shift, p->scale, p->states, s->memory + p->state, 1, x);
    for (int k = 0; k < p->signals; k++)
        *shared++ = linear_sum(m + p->state_means + k, p->states, p->signals, x) + m[p->constants + k];
    for (int k = 0; k < p->signals; k++, shared += p->columns) {
        product(m + p->state_roots + k * p->states * p->columns, p->states, p->columns, x, shared);
        for (int i = 0; i < p->columns; i++)
            shared[i] += m[p->root_constants + k * p->columns + i];
    }
}

static void change_interval(const signal_change *p, const landmarks *data, shield_t *s, const action_set *a, real *mean,
                            real *width)
{
    const real *m = s->model, *numbers = m + p->numbers, *least = numbers + 3, *slopes = least + p->signals;
    const real *shared = s->memory + p->shared, *spreads = shared + p->signals;
    real *x = s->memory + SCRATCH, *work = x + p->actions;
    for (int l = 0; l < a->lanes; l++) {
        standardise(m, p->shift + p->states, p->scale + p->states, p->actions, a->values + l, a->lanes, x);
        real beyond = larger(landmarks_distance(data, s, x, work) - numbers[2], 0);
        for (int k = 0; k < p->signals; k++) {
            const real *spread = spreads + k * p->columns;
            real square = 0;
            product(m + p->action_roots + k * p->actions * p->columns, p->actions, p->columns, x, work);
            for (int i = 0; i < p->columns; i++)
                square += (spread[i] + work[i]) * (spread[i] + work[i]);
            real moved = shared[k] + linear_sum(m + p->action_means + k, p->actions, p->signals, x);
            mean[k * a->lanes + l] = moved + s->memory[p->now + k];
            width[k * a->lanes + l] = numbers[0] * SQRT(square) + least[k]
                                      + (beyond > numbers[1] ? INFINITY : beyond * slopes[k]);
        }
    }
}

/* Add the regression of one signal's residual, in its own units. */
static void change_add(const shield_t *s, int scale, const action_set *a, const real *of_residual, const real *spread,
                       real *mean, real *width)
{
    for (int l = 0; l < a->lanes; l++) {
        mean[l] += s->model[scale] * of_residual[l];
        width[l] += s->model[scale] * spread[l];
    }
}
