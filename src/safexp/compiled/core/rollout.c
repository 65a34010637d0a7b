/*
 * The worst of every limited signal while an action is run and then the backup drives, predicted step by step with a
 * polynomial model. Widths follow the errors of replays, the uncertainty of the model, and the range of its data.
 */

typedef struct {
    int state, states, observed, inputs, actions, signals, sides; /* where the state is, and numbers of entries */
    int steps, degree, features;                  /* length of the path; features are padded */
    const int *input_entries, *signal_entries;    /* entries of the state */
    const int *which;                             /* signal of every side */
    const int *factors;                           /* every monomial of degree 2 or more as a shorter one and an input */
    int monomials;
    int shift, scale, extent;                     /* of the inputs; extent holds the lowest, then the highest */
    int weights, outputs, of_states, of_actions, constant; /* the model: of monomials (padded), or linear */
    int root;                                     /* triangular root of the uncertainty of the weights */
    int level, slope, least;                      /* squared width after every step, its growth; least widths */
    int sign, numbers;                            /* signs of the sides, and (scale, multiplier, least share) */
    const support *range;
} rollout;

static void backup_act(shield_t *s, const real *observation, real *action);

/* Monomials of standardised and clipped inputs, the constant first. */
static void monomials(const rollout *p, const real *m, const real *inputs, real *features)
{
    int count = p->inputs + p->actions;
    features[0] = 1;
    for (int i = 0; i < count; i++) {
        real x = (inputs[i] - m[p->shift + i]) / m[p->scale + i];
        features[1 + i] = smaller(larger(x, m[p->extent + i]), m[p->extent + count + i]);
    }
    for (int i = 0; i < p->monomials; i++)
        features[1 + count + i] = features[p->factors[2 * i]] * features[1 + p->factors[2 * i + 1]];
    for (int i = 1 + count + p->monomials; i < p->features; i++)
        features[i] = 0;
}

/* The next state. */
static void advance(const rollout *p, const real *m, const real *state, const real *action, const real *features,
                    real *next)
{
    if (p->degree > 1) {
        product(m + p->weights, p->features, p->outputs, features, next);
        for (int i = 0; i < p->states; i++)
            next[i] += state[i];
        return;
    }
    for (int j = 0; j < p->states; j++) {
        real of_state = 0, of_action = 0;
        for (int i = 0; i < p->states; i++)
            of_state += state[i] * m[p->of_states + i * p->states + j];
        for (int i = 0; i < p->actions; i++)
            of_action += action[i] * m[p->of_actions + i * p->states + j];
        next[j] = of_state + of_action + m[p->constant + j];
    }
}

static real growth(const rollout *p, const real *m, const real *inputs)
{
    real beyond = larger(outside(p->range, m, 0, p->inputs, inputs, 1),
                         outside(p->range, m, p->inputs, p->actions, inputs + p->inputs, 1));
    return 1 / larger(1 - beyond / m[p->range->reach], 0);
}

/* Width of signal k after this step, having covered this way. */
static real width_after(const rollout *p, const real *m, int step, int k, real way, real leverage, real factor)
{
    int at = step * p->signals + k;
    real deviation = m[p->numbers + 1] * SQRT(m[p->level + at] + m[p->slope + at] * (way * way));
    return (deviation * SQRT(1 + leverage * leverage) + m[p->numbers + 2] * way) * factor;
}

static void rollout_one(const rollout *p, shield_t *s, const real *first, int stride, real *mean, real *width)
{
    const real *m = s->model;
    real *state = s->memory + SCRATCH, *next = state + p->outputs, *inputs = next + p->outputs;
    real *features = inputs + p->inputs + p->actions, *seen = features + p->features, *action = seen + p->observed;
    real *before = action + p->actions, *way = before + p->signals, *worst = way + p->signals;
    real leverage = 0, factor = 0;
    for (int i = 0; i < p->states; i++)
        state[i] = s->memory[p->state + i];
    for (int k = 0; k < p->signals; k++) {
        before[k] = state[p->signal_entries[k]];
        way[k] = 0;
    }
    for (int k = 0; k < p->sides; k++) {
        worst[k] = -INFINITY;
        mean[k * stride] = 0;
        width[k * stride] = INFINITY;
    }
    for (int step = 0; step < p->steps; step++) {
        if (step == 0) {
            for (int i = 0; i < p->actions; i++)
                action[i] = first[i * stride];
        } else {
            for (int i = 0; i < p->observed; i++)
                seen[i] = SEEN(state[i]);
            backup_act(s, seen, action);
            for (int i = 0; i < p->actions; i++)
                action[i] = smaller(larger(action[i], m[ACTION_LOW + i]), m[ACTION_HIGH + i]);
        }
        for (int i = 0; i < p->inputs; i++)
            inputs[i] = state[p->input_entries[i]];
        for (int i = 0; i < p->actions; i++)
            inputs[p->inputs + i] = action[i];
        factor = larger(factor, growth(p, m, inputs));
        int doubled = (step & (step - 1)) == 0; /* 0, 1, 2, 4, 8, … */
        if (p->degree > 1 || doubled)
            monomials(p, m, inputs, features);
        if (doubled)
            leverage = larger(leverage, SQRT(triangle_norm(m + p->root, p->features, features)));
        advance(p, m, state, action, features, next);
        for (int k = 0; k < p->signals; k++) {
            real signal = next[p->signal_entries[k]];
            way[k] += FABS(signal - before[k]);
            before[k] = signal;
        }
        for (int k = 0; k < p->sides; k++) {
            int which = p->which[k];
            real signal = before[which];
            real spread = width_after(p, m, step, which, way[which], leverage, factor);
            spread = isfinite(signal) && isfinite(spread) ? m[p->numbers] * spread + m[p->least + which] : INFINITY;
            real reached = isfinite(spread) ? m[p->sign + k] * signal + spread : INFINITY;
            if (reached > worst[k]) {
                int known = isfinite(signal) && isfinite(spread);
                worst[k] = reached;
                mean[k * stride] = known ? signal : 0;
                width[k * stride] = known ? spread : INFINITY;
            }
        }
        real *swapped = state;
        state = next;
        next = swapped;
    }
}

static void rollout_interval(const rollout *p, shield_t *s, const action_set *a, real *mean, real *width)
{
    for (int l = 0; l < a->lanes; l++)
        rollout_one(p, s, a->values + l, a->lanes, mean + l, width + l);
}
