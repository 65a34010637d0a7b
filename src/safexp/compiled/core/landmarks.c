/* Distance of an action in the state from the nearest of the points that cover the data, in standardised inputs. */

typedef struct {
    int state, states, actions, count;         /* where the state is, numbers of entries, padded number of points */
    int shift, scale;                          /* tables of the inputs, the state's first */
    int state_marks, action_marks, mark_norms; /* points times −2, and their squared norms */
    int shared;                                /* squared norm of the state, and its products with the points */
} landmarks;

static inline void standardise(const real *m, int shift, int scale, int count, const real *x, int stride, real *result)
{
    for (int i = 0; i < count; i++)
        result[i] = (x[i * stride] - m[shift + i]) / m[scale + i];
}

static inline real squared_norm(const real *x, int count)
{
    real sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

static inline void landmarks_state(const landmarks *p, shield_t *s)
{
    const real *m = s->model;
    real *x = s->memory + SCRATCH, *shared = s->memory + p->shared;
    standardise(m, p->shift, p->scale, p->states, s->memory + p->state, 1, x);
    *shared++ = squared_norm(x, p->states);
    product(m + p->state_marks, p->states, p->count, x, shared);
    for (int i = 0; i < p->count; i++)
        shared[i] += m[p->mark_norms + i];
}

/* Distance of a standardised action x in the state. */
static inline real landmarks_distance(const landmarks *p, const shield_t *s, const real *x, real *work)
{
    const real *m = s->model, *shared = s->memory + p->shared, *marks = shared + 1;
    real square = shared[0] + squared_norm(x, p->actions), least = INFINITY;
    product(m + p->action_marks, p->actions, p->count, x, work);
    for (int i = 0; i < p->count; i++)
        least = smaller(marks[i] + work[i], least);
    return SQRT(larger(least + square, 0));
}
