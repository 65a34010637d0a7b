/* Region that the data has visited: widths are infinite further from it than `reach`. */

static inline void visited_widen(const landmarks *p, int reach, shield_t *s, const action_set *a, real *width)
{
    const real *m = s->model;
    real *x = s->memory + SCRATCH;
    for (int l = 0; l < a->lanes; l++) {
        standardise(m, p->shift + p->states, p->scale + p->states, p->actions, a->values + l, a->lanes, x);
        if (!(landmarks_distance(p, s, x, x + p->actions) <= m[reach]))
            width[l] = INFINITY;
    }
}
