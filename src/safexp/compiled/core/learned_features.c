/* Linear regression on the last hidden layer of a network: mean θᵀφ and width scale · |R φ| + residual. */

typedef struct {
    int state, states, actions, features, widest; /* where the state is, and numbers of entries */
    const dense_layer *layers;
    int count;
    int weights, triangle, numbers; /* θ, R, and (prior mean, 1/√D, scale, residual) */
} learned_features;

static void learned_features_interval(const learned_features *g, shield_t *s, const action_set *a, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers, *state = s->memory + g->state;
    int lanes = a->lanes;
    real *x = s->memory + SCRATCH, *one = x + (g->states + g->actions) * LANES, *other = one + g->widest * LANES;
    real *phi = other + g->widest * LANES;
    real sum[LANES] = {0}, squares[LANES];
    for (int i = 0; i < g->states + g->actions; i++)
        for (int l = 0; l < lanes; l++)
            x[i * lanes + l] = i < g->states ? state[i] : a->values[(i - g->states) * lanes + l];
    const real *hidden = network(g->layers, g->count, m, lanes, x, one, other);
    for (int i = 0; i < g->features; i++)
        for (int l = 0; l < lanes; l++) {
            phi[i * lanes + l] = numbers[1] * hidden[i * lanes + l];
            sum[l] += m[g->weights + i] * phi[i * lanes + l];
        }
    if (lanes == LANES)
        triangle_norms(m + g->triangle, g->features, phi, squares);
    else
        squares[0] = triangle_norm(m + g->triangle, g->features, phi);
    for (int l = 0; l < lanes; l++) {
        mean[l] = sum[l] + numbers[0];
        width[l] = numbers[2] * SQRT(squares[l]) + numbers[3];
    }
}
