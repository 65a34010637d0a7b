/* Finitely many actions: entry i is one of action_counts[i] numbers from action_starts[i] on; the last varies fastest. */

static const int action_starts[] = ACTION_STARTS, action_counts[] = ACTION_COUNTS;

/* The place of an action among all of them, or -1 if it is none of them. */
static int choice_of(const real *action)
{
    int found = 0;
    for (int i = 0; i < SHIELD_ACTION; i++) {
        if (!is_choice(action[i], (real)action_starts[i], action_counts[i]))
            return -1;
        found = found * action_counts[i] + (int)(action[i] - (real)action_starts[i]);
    }
    return found;
}

/* The entries of the action at this place. */
static void write_choice(int choice, real *action)
{
    for (int i = SHIELD_ACTION - 1; i >= 0; i--) {
        action[i] = (real)(action_starts[i] + choice % action_counts[i]);
        choice /= action_counts[i];
    }
}

#if SEVERAL_ENTRIES
/* Number of entries in which two actions differ. */
static int changed_entries(int one, int other)
{
    int found = 0;
    for (int i = SHIELD_ACTION - 1; i >= 0; i--) {
        found += one % action_counts[i] != other % action_counts[i];
        one /= action_counts[i];
        other /= action_counts[i];
    }
    return found;
}
#endif
