/*
 * A control loop at 1 kHz with an exported shield and a deadline: a bold speed controller, a simulated motor, and a limit
 * on its current.
 *
 *   python make_shield.py
 *   cc -std=c99 -O2 -ffp-contract=off -Wall controller.c shield.c -o controller -lm
 *   ./controller [seconds] [unshielded]
 *
 * On a real machine, replace `motor` by the drive, and give the process a real-time priority (chrt -f 50 ./controller).
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shield.h"

#define PERIOD 1000000LL  /* ns */
#define DEADLINE 500000LL /* ns from the start of the period until the action must be out */
#define LIMIT 10.0        /* A */

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(long long when)
{
    struct timespec t = {(time_t)(when / 1000000000LL), (long)(when % 1000000000LL)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* Current and speed a millisecond later. Without its drive, the terminals are open and the current dies away. */
static void motor(double state[2], double volts, int driven)
{
    if (!driven)
        volts = 0.1 * state[1];
    double load = state[1] > 0 ? 0.1 : state[1] < 0 ? -0.1 : 0;
    double change = (volts - 0.5 * state[0] - 0.1 * state[1]) / 5e-3;
    double torque = 0.1 * state[0] - load - 1e-3 * state[1];
    state[0] += 1e-3 * change;
    state[1] += 1e-3 * torque / 1e-3;
}

/* A speed controller that knows nothing of the current. */
static double speed_controller(const double state[2], double aim) { return 2.0 * (aim - state[1]) + 0.1 * aim; }

int main(int argc, char **argv)
{
    long steps = argc > 1 ? 1000 * strtol(argv[1], NULL, 10) : 5000, over = 0, late = 0;
    int shielded = argc < 3;
    double state[2] = {0.0, 0.0}, worst = 0.0;
    long long longest = 0, start = now() + PERIOD;
    static shield_t shield; /* about 10 kB: not on a small stack */
    shield_init(&shield, NULL); /* no fallback voltage is safe at every speed: without an answer the drive is disabled */
    shield_reset(&shield, state, NULL);
    for (long k = 0; k < steps; k++) {
        double aim = (k / 500) % 2 ? -100.0 : 100.0, proposal, action;
        long long begin = start + k * PERIOD, spent, decided;
        sleep_until(begin);
        decided = now();
        proposal = speed_controller(state, aim);
        int driven = shield_act(&shield, state, &proposal, &action) < SHIELD_NOTHING_SAFE;
        spent = now() - decided;
        if (now() - begin > DEADLINE) { /* too late: whatever was computed is not run */
            late++;
            driven = 0;
        }
        if (!shielded) {
            driven = 1;
            action = fmin(fmax(proposal, -24.0), 24.0);
        }
        motor(state, action, driven);
        longest = spent > longest ? spent : longest;
        worst = fmax(worst, fabs(state[0]));
        over += fabs(state[0]) > LIMIT + 1e-7;
    }
    printf("%ld steps, %ld over the limit of %g A, largest current %.3f A, final speed %.1f rad/s\n", steps, over, LIMIT,
           worst, state[1]);
    printf("proposals %ld, replacements %ld, stops %ld, bad observations %ld; late %ld, longest decision %.1f us\n",
           shield.counts[SHIELD_PROPOSAL], shield.counts[SHIELD_REPLACEMENT], shield.counts[SHIELD_NOTHING_SAFE],
           shield.counts[SHIELD_BAD_OBSERVATION], late, (double)longest / 1000.0);
    return over > 0;
}
