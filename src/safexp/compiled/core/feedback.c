/* Linear feedback: target + gains (observation − centre), clipped. */

typedef struct {
    int inputs, outputs;                     /* entries of the observation and of the action */
    int gains, centre, target, low, high;    /* tables; gains [entry][action] */
} linear_feedback;

static void feedback_act(const linear_feedback *p, const real *m, const real *observation, real *action)
{
    for (int j = 0; j < p->outputs; j++) {
        real sum = 0;
        for (int i = 0; i < p->inputs; i++)
            sum += (observation[i] - m[p->centre + i]) * m[p->gains + i * p->outputs + j];
        action[j] = smaller(larger(sum + m[p->target + j], m[p->low + j]), m[p->high + j]);
    }
}
