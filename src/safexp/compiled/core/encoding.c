/* Observations as states, and actions as vectors. */

enum { PLAIN, SINGLE, WHOLE, ONE_HOT }; /* kinds of entries: numbers, rounded to float in the space, integers, a choice */

typedef struct {
    int kind, entries, from, to; /* numbers of the observation, or choices; where they are, and where they go */
    int low, high;               /* tables of the range */
} observation_part;

@PARTS@

/* A number as a space of float32 holds it; infinite beyond its range. */
static inline real narrow(real x) { return FABS(x) <= (real)FLT_MAX ? (real)(float)x : x * INFINITY; }

/* Whether x is one of `count` choices, counted from `first`. */
static inline int is_choice(real x, real first, int count)
{
    return x >= first && x < first + (real)count && x - first == (real)(int)(x - first);
}

/* Encode an observation; 0 if an entry is not finite or not a choice. */
static int encode_observation(shield_t *s, const real *observation)
{
    for (int p = 0; p < OBSERVATION_PARTS; p++) {
        const observation_part *part = observation_parts + p;
        real *state = s->memory + part->to;
        if (part->kind == ONE_HOT) {
            real first = s->model[part->low], x = observation[part->from];
            if (!is_choice(x, first, part->entries))
                return 0;
            for (int i = 0; i < part->entries; i++)
                state[i] = i == (int)(x - first);
            continue;
        }
        for (int i = 0; i < part->entries; i++) {
            if (!isfinite(observation[part->from + i]))
                return 0;
            state[i] = observation[part->from + i];
        }
    }
    return 1;
}

/* Whether an observation is finite and in its space. */
static int fits(const shield_t *s, const real *observation)
{
    for (int p = 0; p < OBSERVATION_PARTS; p++) {
        const observation_part *part = observation_parts + p;
        const real *low = s->model + part->low, *high = s->model + part->high;
        if (part->kind == ONE_HOT) {
            if (!is_choice(observation[part->from], *low, part->entries))
                return 0;
            continue;
        }
        for (int i = 0; i < part->entries; i++) {
            real x = observation[part->from + i];
            real rounded = part->kind == SINGLE ? narrow(x) : x;
            if (!(isfinite(x) && rounded >= low[i] && rounded <= high[i]))
                return 0;
            if (part->kind == WHOLE && x != FLOOR(x))
                return 0;
        }
    }
    return 1;
}

/* Write the signals after the encoded observation: as given, or as observed. 0 if one is unknown. */
static int place_signals(shield_t *s, const real *observation, const real *measured)
{
    for (int k = 0; k < SHIELD_SIGNALS; k++) {
        if (measured == NULL && signal_entries[k] < 0)
            return 0;
        s->memory[STATES + k] = measured != NULL ? measured[k] : observation[signal_entries[k]];
    }
    return 1;
}
