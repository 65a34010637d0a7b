/*
 * Sparse Gaussian process: mean αᵀk and variance v − |R k|² + noise, for the kernel k of the inducing points. The kernel
 * is the product of one of the state, computed once, and one of the action, which is a table for the candidates.
 */

typedef struct {
    int state, states, actions, points;              /* where the state is, and numbers of entries and points */
    int shift, rate, state_points, state_norms;      /* tables of the inputs, the state's first */
    int action_points, action_norms, candidates;     /* candidates: the kernel's factor of every fixed action */
    int weights, triangle, numbers;                  /* α, R, and (prior mean, v, noise, multiplier) */
    int shared;                                      /* exponents of the state, then their exponentials */
} sparse_gp;

static void sparse_gp_state(const sparse_gp *g, shield_t *s)
{
    const real *m = s->model;
    exponents(m + g->shift, m + g->rate, m + g->state_points, m + g->state_norms, g->states, g->points,
              s->memory + g->state, 1, s->memory + SCRATCH, s->memory + g->shared);
}

static void sparse_gp_all(const sparse_gp *g, shield_t *s)
{
    const real *exponent = s->memory + g->shared;
    for (int i = 0; i < g->points; i++)
        s->memory[g->shared + g->points + i] = decay(exponent[i]);
}

static real sparse_gp_width(const real *numbers, real explained)
{
    return numbers[3] * SQRT(larger(numbers[1] - explained, 0) + numbers[2]);
}

static void sparse_gp_one(const sparse_gp *g, shield_t *s, const real *action, int stride, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers, *weights = m + g->weights;
    const real *exponent = s->memory + g->shared;
    real *kernel = s->memory + SCRATCH, *scaled = kernel + g->points;
    exponents(m + g->shift + g->states, m + g->rate + g->states, m + g->action_points, m + g->action_norms, g->actions,
              g->points, action, stride, scaled, kernel);
    real sum = 0;
    for (int i = 0; i < g->points; i++) {
        kernel[i] = decay(exponent[i] + kernel[i]);
        sum += weights[i] * kernel[i];
    }
    *mean = sum + numbers[0];
    *width = sparse_gp_width(numbers, triangle_norm(m + g->triangle, g->points, kernel));
}

static void sparse_gp_block(const sparse_gp *g, shield_t *s, int block, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers, *weights = m + g->weights;
    const real *of_state = s->memory + g->shared + g->points;
    const real *of_actions = m + g->candidates + block * g->points * LANES;
    real *kernel = s->memory + SCRATCH;
    real sum[LANES] = {0}, explained[LANES];
    for (int i = 0; i < g->points; i++)
        for (int l = 0; l < LANES; l++) {
            real k = of_state[i] * of_actions[i * LANES + l];
            kernel[i * LANES + l] = k;
            sum[l] += weights[i] * k;
        }
    triangle_norms(m + g->triangle, g->points, kernel, explained);
    for (int l = 0; l < LANES; l++) {
        mean[l] = sum[l] + numbers[0];
        width[l] = sparse_gp_width(numbers, explained[l]);
    }
}

static void sparse_gp_interval(const sparse_gp *g, shield_t *s, const action_set *a, real *mean, real *width)
{
    if (a->block >= 0)
        sparse_gp_block(g, s, a->block, mean, width);
    else
        sparse_gp_one(g, s, a->values, a->lanes, mean, width);
}
