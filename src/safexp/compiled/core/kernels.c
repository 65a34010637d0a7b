/* Sums, products and norms. Matrices are stored in tiles of TILE columns, row after row; columns are padded with zeros. */

enum { LANES = 8, TILE = 16 };

/* Actions that are evaluated together: values[entry * lanes + lane]. `block` counts the fixed candidates; -1 for others. */
typedef struct {
    int lanes, block;
    const real *values;
} action_set;

/* The larger number, or NaN if one of them is. */
static inline real larger(real a, real b) { return a > b || isnan(a) ? a : b; }

static inline real smaller(real a, real b) { return a < b || isnan(a) ? a : b; }

/* exp(x), and 0 where that would be a denormal number, which processors are slow at. */
static inline real decay(real x) { return x < LEAST_EXPONENT ? 0 : EXP(x); }

/* y = x A, for a matrix of `rows` by `columns`. */
static inline void product(const real *restrict tiles, int rows, int columns, const real *restrict x, real *restrict y)
{
    for (int j = 0; j < columns; j += TILE) {
        real sum[TILE] = {0};
        for (int i = 0; i < rows; i++, tiles += TILE)
            for (int l = 0; l < TILE; l++)
                sum[l] += x[i] * tiles[l];
        for (int l = 0; l < TILE; l++)
            y[j + l] = sum[l];
    }
}

/* |R x|², for an upper triangular matrix of which tile j begins with row j. */
static inline real triangle_norm(const real *restrict tiles, int size, const real *restrict x)
{
    real total = 0;
    for (int j = 0; j < size; j += TILE) {
        real sum[TILE] = {0};
        for (int i = j; i < size; i++, tiles += TILE)
            for (int l = 0; l < TILE; l++)
                sum[l] += x[i] * tiles[l];
        for (int l = 0; l < TILE; l++)
            total += sum[l] * sum[l];
    }
    return total;
}

/* Sums over `rows` of LANES vectors with four successive columns of a tile. */
static inline void four_columns(const real *restrict row, int rows, const real *restrict x, real *restrict sums)
{
    real a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0}, d[LANES] = {0};
    for (int i = 0; i < rows; i++, row += TILE, x += LANES) {
        real p = row[0], q = row[1], r = row[2], s = row[3];
        for (int l = 0; l < LANES; l++) {
            a[l] += p * x[l];
            b[l] += q * x[l];
            c[l] += r * x[l];
            d[l] += s * x[l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        sums[l] = a[l];
        sums[LANES + l] = b[l];
        sums[2 * LANES + l] = c[l];
        sums[3 * LANES + l] = d[l];
    }
}

/* `product` for LANES vectors at once, x[row * LANES + lane] and y[column * LANES + lane]. */
static inline void products(const real *restrict tiles, int rows, int columns, const real *restrict x, real *restrict y)
{
    for (int j = 0; j < columns; j += TILE, tiles += rows * TILE)
        for (int part = 0; part < TILE; part += 4)
            four_columns(tiles + part, rows, x, y + (j + part) * LANES);
}

/* `triangle_norm` for LANES vectors at once. */
static inline void triangle_norms(const real *restrict tiles, int size, const real *restrict x, real *restrict norms)
{
    real sums[4 * LANES];
    for (int l = 0; l < LANES; l++)
        norms[l] = 0;
    for (int j = 0; j < size; j += TILE) {
        for (int part = 0; part < TILE; part += 4) {
            four_columns(tiles + part, size - j, x + j * LANES, sums);
            for (int q = 0; q < 4; q++)
                for (int l = 0; l < LANES; l++)
                    norms[l] += sums[q * LANES + l] * sums[q * LANES + l];
        }
        tiles += (size - j) * TILE;
    }
}

/* Exponents −½|x − z|² of an RBF kernel, for inputs (x − shift) * rate and `points` inducing inputs z. */
static inline void exponents(const real *shift, const real *rate, const real *tiles, const real *norms, int size, int points,
                      const real *x, int stride, real *scaled, real *result)
{
    real half = 0;
    for (int i = 0; i < size; i++) {
        scaled[i] = (x[i * stride] - shift[i]) * rate[i];
        half += scaled[i] * scaled[i];
    }
    half *= (real)0.5;
    product(tiles, size, points, scaled, result);
    for (int i = 0; i < points; i++) {
        real exponent = result[i] - norms[i] - half;
        result[i] = exponent > 0 ? 0 : exponent;
    }
}
