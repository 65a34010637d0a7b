/* Fully connected layers. */

enum { NO_ACTIVATION, TANH_ACTIVATION, RELU, SIGMOID, ELU, LEAKY_RELU };

typedef struct {
    int inputs, outputs;              /* outputs are padded */
    int weights, biases, activation;  /* tables, and a kind of activation */
    int slope;                        /* table: the parameter of ELU and LEAKY_RELU */
} dense_layer;

static real activated(int kind, real slope, real x)
{
    switch (kind) {
    case TANH_ACTIVATION:
        return TANH(x);
    case RELU:
        return larger(x, 0);
    case SIGMOID:
        return 1 / (1 + EXP(-x));
    case ELU:
        return x > 0 ? x : slope * (EXP(x) - 1);
    case LEAKY_RELU:
        return x > 0 ? x : slope * x;
    default:
        return x;
    }
}

/* Outputs y[output * lanes + lane] of one layer for inputs x[input * lanes + lane]; lanes is 1 or LANES. */
static void dense(const dense_layer *p, const real *m, int lanes, const real *x, real *y)
{
    if (lanes == LANES)
        products(m + p->weights, p->inputs, p->outputs, x, y);
    else
        product(m + p->weights, p->inputs, p->outputs, x, y);
    for (int j = 0; j < p->outputs; j++)
        for (int l = 0; l < lanes; l++) {
            int at = j * lanes + l;
            y[at] = activated(p->activation, m[p->slope], y[at] + m[p->biases + j]);
        }
}

/* Outputs of successive layers; `one` and `other` hold the values between them. Returns where the last ones are. */
static const real *network(const dense_layer *layers, int count, const real *m, int lanes, const real *x, real *one,
                           real *other)
{
    for (int k = 0; k < count; k++) {
        dense(layers + k, m, lanes, x, one);
        x = one;
        one = other;
        other = (real *)x;
    }
    return x;
}
