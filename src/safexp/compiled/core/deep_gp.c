/*
 * Deep Gaussian process whose hidden layers share their inducing inputs: with a = L⁻¹k, the means of a layer are
 * linear(x) + aᵀm and its variances v + Σ aᵢ² gainᵢ. Samples of the hidden values pass through with fixed draws.
 */

typedef struct {
    int inputs, points, outputs;         /* numbers of entries; points and outputs are padded */
    int rate, centres, norms;            /* tables of the kernel */
    int whiten, linear, means, gains;    /* matrices */
    int variance, draws;                 /* v, and the draws of every sample */
} deep_layer;

typedef struct {
    int state, states, actions, samples, widest; /* where the state is, and numbers of entries */
    int shift, scale, numbers;                   /* of the inputs, and (prior mean, noise, multiplier, v) */
    const deep_layer *layers;
    int count;
    int points, inputs, rate, centres, norms, weights, triangle; /* the output process */
} deep_gp;

/* y = x A for one vector or LANES of them. */
static void multiply(const real *tiles, int rows, int columns, int lanes, const real *x, real *y)
{
    if (lanes == LANES)
        products(tiles, rows, columns, x, y);
    else
        product(tiles, rows, columns, x, y);
}

/* Kernel of inputs x with the inducing inputs; `scaled` is work space. */
static void deep_kernel(const real *m, int inputs, int points, int rate, int centres, int norms, int lanes,
                        const real *x, real *scaled, real *kernel)
{
    real half[LANES] = {0};
    for (int i = 0; i < inputs; i++)
        for (int l = 0; l < lanes; l++) {
            real value = x[i * lanes + l] * m[rate + i];
            scaled[i * lanes + l] = value;
            half[l] += (real)0.5 * value * value;
        }
    multiply(m + centres, inputs, points, lanes, scaled, kernel);
    for (int i = 0; i < points; i++)
        for (int l = 0; l < lanes; l++) {
            real exponent = kernel[i * lanes + l] - m[norms + i] - half[l];
            kernel[i * lanes + l] = exponent > 0 ? 1 : decay(exponent);
        }
}

/* Means and standard deviations of a hidden layer at x; `work` holds three vectors of the widest layer. */
static void deep_hidden(const deep_layer *p, const real *m, int lanes, int widest, const real *x, real *mean,
                        real *deviation, real *work)
{
    real *kernel = work, *a = work + widest * LANES, *more = a + widest * LANES;
    deep_kernel(m, p->inputs, p->points, p->rate, p->centres, p->norms, lanes, x, a, kernel);
    multiply(m + p->whiten, p->points, p->points, lanes, kernel, a);
    multiply(m + p->linear, p->inputs, p->outputs, lanes, x, mean);
    multiply(m + p->means, p->points, p->outputs, lanes, a, more);
    for (int i = 0; i < p->outputs * lanes; i++)
        mean[i] += more[i];
    for (int i = 0; i < p->points * lanes; i++)
        a[i] *= a[i];
    multiply(m + p->gains, p->points, p->outputs, lanes, a, deviation);
    for (int i = 0; i < p->outputs * lanes; i++)
        deviation[i] = SQRT(larger(m[p->variance] + deviation[i], (real)1e-10));
}

/* Mean and variance v − |R k|² of the output process at x. */
static void deep_output(const deep_gp *g, const real *m, int lanes, const real *x, real *mean, real *variance, real *work)
{
    real *kernel = work, *scaled = work + g->widest * LANES;
    real explained[LANES];
    deep_kernel(m, g->inputs, g->points, g->rate, g->centres, g->norms, lanes, x, scaled, kernel);
    if (lanes == LANES)
        triangle_norms(m + g->triangle, g->points, kernel, explained);
    else
        explained[0] = triangle_norm(m + g->triangle, g->points, kernel);
    for (int l = 0; l < lanes; l++) {
        mean[l] = 0;
        variance[l] = larger(m[g->numbers + 3] - explained[l], 0);
    }
    for (int i = 0; i < g->points; i++)
        for (int l = 0; l < lanes; l++)
            mean[l] += m[g->weights + i] * kernel[i * lanes + l];
}

static void deep_gp_interval(const deep_gp *g, shield_t *s, const action_set *a, real *mean, real *width)
{
    const real *m = s->model, *numbers = m + g->numbers;
    int lanes = a->lanes, room = g->widest * LANES;
    real *first = s->memory + SCRATCH, *first_deviation = first + room, *x = first_deviation + room, *next = x + room;
    real *deviation = next + room, *work = deviation + room;
    real sum[LANES] = {0}, squares[LANES] = {0}, variances[LANES] = {0}, of_sample[LANES], variance[LANES];
    real *means = work + 3 * room;
    for (int i = 0; i < g->states + g->actions; i++)
        for (int l = 0; l < lanes; l++) {
            real value = i < g->states ? s->memory[g->state + i] : a->values[(i - g->states) * lanes + l];
            x[i * lanes + l] = (value - m[g->shift + i]) / m[g->scale + i];
        }
    deep_hidden(g->layers, m, lanes, g->widest, x, first, first_deviation, work);
    for (int k = 0; k < g->samples; k++) {
        const real *hidden = first, *spread = first_deviation;
        for (int layer = 0; layer < g->count; layer++) {
            const deep_layer *p = g->layers + layer;
            for (int i = 0; i < p->outputs; i++)
                for (int l = 0; l < lanes; l++)
                    x[i * lanes + l] = hidden[i * lanes + l] + m[p->draws + k * p->outputs + i] * spread[i * lanes + l];
            if (layer + 1 < g->count) {
                deep_hidden(p + 1, m, lanes, g->widest, x, next, deviation, work);
                hidden = next;
                spread = deviation;
            }
        }
        deep_output(g, m, lanes, x, of_sample, variance, work);
        for (int l = 0; l < lanes; l++) {
            means[k * lanes + l] = of_sample[l];
            sum[l] += of_sample[l];
            variances[l] += variance[l];
        }
    }
    for (int l = 0; l < lanes; l++) {
        real average = sum[l] / (real)g->samples;
        for (int k = 0; k < g->samples; k++)
            squares[l] += (means[k * lanes + l] - average) * (means[k * lanes + l] - average);
        real total = (variances[l] + squares[l]) / (real)g->samples + numbers[1];
        mean[l] = average + numbers[0];
        width[l] = numbers[2] * SQRT(total);
    }
}
