/* For the Python binding: a model from outside, and many questions with one call. */

#include <time.h>

void shield_attach(shield_t *s, const real *model) { s->model = model; }

int shield_size(void) { return (int)sizeof(shield_t); }

/* Mean and width of costs, [question][action][cost]; returns how many states had no prediction. */
void shield_predict(shield_t *s, int questions, int actions, const real *states, const real *encoded, real *mean,
                    real *width)
{
    real one[SHIELD_COSTS * LANES], spread[SHIELD_COSTS * LANES];
    for (int n = 0; n < questions; n++) {
        int known = actions >= CANDIDATE_COUNT, done = 0;
        for (int i = 0; i < STATES + SHIELD_SIGNALS; i++)
            s->memory[i] = *states++;
        for (int j = 0; known && j < CANDIDATE_COUNT; j++) /* are these the fixed candidates? */
            for (int i = 0; i < ACTIONS; i++)
                if (encoded[j * ACTIONS + i] != s->model[CANDIDATES + ((j / LANES) * ACTIONS + i) * LANES + j % LANES])
                    known = 0;
        prepare(s);
        if (known) {
            prepare_all(s);
            for (int block = 0; block < BLOCKS; block++) {
                action_set a = {LANES, block, s->model + CANDIDATES + block * ACTIONS * LANES};
                predict(s, &a, one, spread);
                for (int l = 0; l < LANES && done < CANDIDATE_COUNT; l++, done++)
                    for (int k = 0; k < SHIELD_COSTS; k++) {
                        *mean++ = one[k * LANES + l];
                        *width++ = spread[k * LANES + l];
                    }
            }
        }
        encoded += done * ACTIONS;
        for (; done < actions; done++, encoded += ACTIONS) {
            action_set a = {1, -1, encoded};
            predict(s, &a, mean, width);
            mean += SHIELD_COSTS;
            width += SHIELD_COSTS;
        }
    }
}

void shield_filter_many(shield_t *s, int questions, const real *observations, const real *measured,
                        const real *proposals, const real *thresholds, const real *last_safe,
                        shield_decision *decisions)
{
    for (int n = 0; n < questions; n++) {
        shield_filter(s, observations + n * SHIELD_OBSERVATION, measured ? measured + n * SHIELD_SIGNALS : NULL,
                      proposals + n * SHIELD_ACTION, thresholds + n * SHIELD_COSTS,
                      last_safe ? last_safe + n * SHIELD_ACTION : NULL, decisions + n);
    }
}

static long long nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* `shield_filter_many` with the nanoseconds of every decision, by the clock and of the processor. */
void shield_time_many(shield_t *s, int questions, const real *observations, const real *measured,
                      const real *proposals, const real *thresholds, shield_decision *decisions, long long *wall,
                      long long *busy)
{
    for (int n = 0; n < questions; n++) {
        long long before = nanoseconds(CLOCK_THREAD_CPUTIME_ID), start = nanoseconds(CLOCK_MONOTONIC);
        shield_filter(s, observations + n * SHIELD_OBSERVATION, measured ? measured + n * SHIELD_SIGNALS : NULL,
                      proposals + n * SHIELD_ACTION, thresholds + n * SHIELD_COSTS, NULL, decisions + n);
        wall[n] = nanoseconds(CLOCK_MONOTONIC) - start;
        busy[n] = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before;
    }
}

/* The same times for a loop that always does the same: what interrupts and other programs add to any computation. */
void shield_time_loop(int repeats, int turns, long long *wall, long long *busy)
{
    volatile int turned = 0;
    for (int n = 0; n < repeats; n++) {
        long long before = nanoseconds(CLOCK_THREAD_CPUTIME_ID), start = nanoseconds(CLOCK_MONOTONIC);
        for (int i = 0; i < turns; i++)
            turned = i;
        wall[n] = nanoseconds(CLOCK_MONOTONIC) - start;
        busy[n] = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before;
    }
    (void)turned;
}
