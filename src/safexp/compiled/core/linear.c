/* A linear function of state and action that the user knows. */

typedef struct {
    int state, states, actions, values;           /* where the state is, and numbers of entries and values */
    int of_states, of_actions, constant, width;   /* tables, [entry][value] */
} linear_model;

static void linear_interval(const linear_model *p, const shield_t *s, const action_set *a, real *mean, real *width)
{
    const real *m = s->model, *state = s->memory + p->state;
    for (int v = 0; v < p->values; v++) {
        real of_state = 0;
        for (int i = 0; i < p->states; i++)
            of_state += state[i] * m[p->of_states + i * p->values + v];
        for (int l = 0; l < a->lanes; l++) {
            real of_action = 0;
            for (int i = 0; i < p->actions; i++)
                of_action += a->values[i * a->lanes + l] * m[p->of_actions + i * p->values + v];
            mean[v * a->lanes + l] = of_state + of_action + m[p->constant + v];
            width[v * a->lanes + l] = m[p->width + v];
        }
    }
}
