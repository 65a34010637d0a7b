/* Decide about the questions of a file, and drive episodes with them; both end in another file. */
#include <stdio.h>
#include <stdlib.h>

#include "shield.h"

static shield_real *read_numbers(FILE *file, long count)
{
    shield_real *found = malloc(sizeof *found * (size_t)(count + 1)); /* exactly as large, for the sanitizer */
    if (found == NULL || fread(found, sizeof *found, (size_t)count, file) != (size_t)count)
        exit(2);
    return found;
}

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = argc == 3 ? fopen(argv[2], "wb") : NULL;
    long n = 0;
    shield_t *loop = malloc(sizeof *loop), *s = malloc(sizeof *s);
    if (in == NULL || out == NULL || s == NULL || loop == NULL || fread(&n, sizeof n, 1, in) != 1)
        return 2;
    shield_real *observations = read_numbers(in, n * SHIELD_OBSERVATION);
    shield_real *measured = read_numbers(in, n * SHIELD_SIGNALS);
    shield_real *proposals = read_numbers(in, n * SHIELD_ACTION);
    shield_real *thresholds = read_numbers(in, n * SHIELD_COSTS);
    shield_real *last = read_numbers(in, n * SHIELD_ACTION);
    shield_init(s, NULL);
    shield_init(loop, NULL);
    for (long k = 0; k < n; k++) {
        shield_decision decision;
        const shield_real *seen = observations + k * SHIELD_OBSERVATION, *proposal = proposals + k * SHIELD_ACTION;
        const shield_real *signals = SHIELD_SIGNALS > 0 ? measured + k * SHIELD_SIGNALS : NULL;
        shield_real action[SHIELD_ACTION], readings[SHIELD_READINGS + 1];
        shield_filter(s, seen, signals, proposal, thresholds + k * SHIELD_COSTS, last + k * SHIELD_ACTION, &decision);
        if (fwrite(&decision, sizeof decision, 1, out) != 1)
            return 2;
        if (k % 50 == 0)
            shield_reset(loop, seen, k % 100 == 0 ? signals : NULL);
        shield_act(loop, seen, proposal, action);
        for (int i = 0; i < SHIELD_READINGS; i++)
            readings[i] = seen[i % SHIELD_OBSERVATION];
        if (k % 7 != 0)
            shield_observe(loop, k % 5 == 0 ? NULL : readings);
    }
    free(observations);
    free(measured);
    free(proposals);
    free(thresholds);
    free(last);
    free(s);
    free(loop);
    fclose(in);
    return fclose(out) == 0 ? 0 : 2;
}
