/* Actions of a box: rounded to the precision of the space and clipped. */

static void encode_action(const shield_t *s, const real *action, real *encoded)
{
    for (int i = 0; i < ACTIONS; i++) {
        real x = ROUNDED(action[i]);
        encoded[i] = smaller(larger(x, s->model[ACTION_LOW + i]), s->model[ACTION_HIGH + i]);
    }
}

/* The sum of squares in the order in which NumPy adds, so that equal distances stay equal. */
static real sum_of_squares(const real *x, int count)
{
    real part[8] = {0}, sum = 0;
    int i = 0;
    if (count > 128) {
        int half = count / 2 - count / 2 % 8;
        return sum_of_squares(x, half) + sum_of_squares(x + half, count - half);
    }
    if (count >= 8) {
        for (; i < count - count % 8; i += 8)
            for (int k = 0; k < 8; k++)
                part[k] += x[i + k] * x[i + k];
        sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Distance of a candidate from the proposal, in spans of the box. */
static real distance(const shield_t *s, const real *candidate, int stride, const real *proposal, real *work)
{
    for (int i = 0; i < ACTIONS; i++)
        work[i] = (candidate[i * stride] - proposal[i]) / s->model[ACTION_SPAN + i];
    return SQRT(sum_of_squares(work, ACTIONS));
}
