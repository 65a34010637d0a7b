/* Widths times the scale of a calibration; an infinite scale certifies nothing. */
static void calibrate(const shield_t *s, int scale, int values, const action_set *a, real *width)
{
    real factor = s->model[scale];
    for (int i = 0; i < values * a->lanes; i++)
        width[i] = isfinite(factor) ? factor * width[i] : INFINITY;
}
