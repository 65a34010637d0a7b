/*
 * Linear regression on random cosines: mean θᵀφ and width scale · |R φ| + residual, with R Rᵀ = Λ⁻¹. The cosine of the
 * sum of a state's and a candidate's angles follows from their sines and cosines.
 */

typedef struct {
    int state, states, actions, features;        /* where the state is, and numbers of entries and features */
    int state_tiles, action_tiles, phases;       /* frequencies of the state and of the action */
    int candidates;                              /* cosines, then sines, of every block of fixed actions */
    int weights, triangle, numbers;              /* θ, R, and (prior mean, √(2/D), scale, residual) */
    int shared;                                  /* angles of the state, their cosines and their sines */
} random_features;

static void random_features_state(const random_features *g, shield_t *s)
{
    real *angles = s->memory + g->shared;
    product(s->model + g->state_tiles, g->states, g->features, s->memory + g->state, angles);
    for (int i = 0; i < g->features; i++)
        angles[i] += s->model[g->phases + i];
}

static void random_features_all(const random_features *g, shield_t *s)
{
    real *angles = s->memory + g->shared;
    for (int i = 0; i < g->features; i++) {
        angles[g->features + i] = COS(angles[i]);
        angles[2 * g->features + i] = SIN(angles[i]);
    }
}

static void random_features_one(const random_features *g, shield_t *s, const action_set *a, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers, *angles = s->memory + g->shared;
    real *phi = s->memory + SCRATCH, *action = phi + g->features;
    for (int i = 0; i < g->actions; i++)
        action[i] = a->values[i * a->lanes];
    product(m + g->action_tiles, g->actions, g->features, action, phi);
    real sum = 0;
    for (int i = 0; i < g->features; i++) {
        phi[i] = numbers[1] * COS(phi[i] + angles[i]);
        sum += m[g->weights + i] * phi[i];
    }
    *mean = sum + numbers[0];
    *width = numbers[2] * SQRT(triangle_norm(m + g->triangle, g->features, phi)) + numbers[3];
}

static void random_features_block(const random_features *g, shield_t *s, int block, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers;
    const real *cosines = s->memory + g->shared + g->features, *sines = cosines + g->features;
    const real *of_cosine = m + g->candidates + 2 * block * g->features * LANES;
    const real *of_sine = of_cosine + g->features * LANES;
    real *phi = s->memory + SCRATCH;
    real sum[LANES] = {0}, squares[LANES];
    for (int i = 0; i < g->features; i++)
        for (int l = 0; l < LANES; l++) {
            int at = i * LANES + l;
            real value = numbers[1] * (cosines[i] * of_cosine[at] - sines[i] * of_sine[at]);
            phi[at] = value;
            sum[l] += m[g->weights + i] * value;
        }
    triangle_norms(m + g->triangle, g->features, phi, squares);
    for (int l = 0; l < LANES; l++) {
        mean[l] = sum[l] + numbers[0];
        width[l] = numbers[2] * SQRT(squares[l]) + numbers[3];
    }
}

static void random_features_interval(const random_features *g, shield_t *s, const action_set *a, real *mean, real *width)
{
    if (a->block >= 0)
        random_features_block(g, s, a->block, mean, width);
    else
        random_features_one(g, s, a, mean, width);
}
