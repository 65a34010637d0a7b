@ABOUT@
#ifndef SHIELD_H
#define SHIELD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef @REAL@ shield_real; /* the precision of all numbers */
#define SHIELD_SINGLE @SINGLE@

@SIZES@

/* What was decided. Whatever is at least SHIELD_NOTHING_SAFE must not be answered with the proposal. */
typedef enum {
    SHIELD_PROPOSAL = 0,        /* the proposal is certified, and clipped to the action space */
    SHIELD_REPLACEMENT = 1,     /* a certified action, as near as one was found */
    SHIELD_BACKUP = 2,          /* nothing is certified: the backup controller's action */
    SHIELD_NOTHING_SAFE = 3,    /* nothing is certified, and there is no backup */
    SHIELD_BAD_OBSERVATION = 4, /* not finite, out of range, or a limited signal is unknown */
    SHIELD_BAD_PROPOSAL = 5,    /* not an action */
    SHIELD_BAD_THRESHOLD = 6    /* a threshold is NaN */
} shield_outcome;

typedef struct {
    shield_outcome outcome;
    int vouched;                              /* 1 if the action is safe on the user's word alone */
    shield_real action[SHIELD_ACTION];        /* the action to run */
    shield_real upper_bound[SHIELD_COSTS];    /* bounds on its costs, or on the proposal's if nothing is safe */
} shield_decision;

/* All state of one control loop. The caller owns it; threads that have one each do not affect one another. */
typedef struct {
    const shield_real *model;                 /* the learned numbers */
    shield_real memory[SHIELD_MEMORY];        /* work space */
    shield_real fallback[SHIELD_ACTION];      /* for shield_act */
    shield_real thresholds[SHIELD_COSTS];     /* largest allowed next costs, in units of the largest cost of a step */
    shield_real spent[SHIELD_LIMITS];
    shield_real weight[SHIELD_LIMITS];
    shield_real signals[SHIELD_SIGNALS + 1];  /* last known measured signals */
    shield_real last[SHIELD_ACTION];
    long step;
    long counts[7];                           /* answers of shield_act by their outcome */
    long bad_costs;                           /* readings that were missing or impossible, counted as the largest cost */
    int has_last;
    int unrounded;                            /* a cost was none of its levels: bounds are no longer rounded to them */
    int awaited;                              /* an action of shield_act was run, and its outcome is not yet told */
} shield_t;

/* Prepare the struct. `fallback` is the action that shield_act answers with after any failure; NULL for zeros. */
void shield_init(shield_t *s, const shield_real *fallback);

/*
 * Decide about one proposal, as Shield.filter does.
 *   observation  SHIELD_OBSERVATION numbers
 *   measured     SHIELD_SIGNALS limited signals as they are now, or NULL to read them from the observation
 *   proposal     SHIELD_ACTION numbers
 *   thresholds   SHIELD_COSTS thresholds, or NULL for those of the account
 *   last_safe    the last safe action, a further candidate, or NULL
 */
shield_outcome shield_filter(shield_t *s, const shield_real *observation, const shield_real *measured,
                             const shield_real *proposal, const shield_real *thresholds,
                             const shield_real *last_safe, shield_decision *decision);

/* Begin an episode: nothing is spent. `observation` and `measured` as in shield_filter. Returns 0 if a signal is unknown. */
int shield_reset(shield_t *s, const shield_real *observation, const shield_real *measured);

/*
 * The action to run now, as ShieldedPolicy.act: always answers, with the fallback where it cannot do better.
 * Thresholds come from the account of the episode.
 */
shield_outcome shield_act(shield_t *s, const shield_real *observation, const shield_real *proposal,
                          shield_real *action);

/* Report the outcome of the last action: SHIELD_READINGS numbers, in the units of the limits; NULL for a failed measurement. */
void shield_observe(shield_t *s, const shield_real *readings);
@POLICY@
#ifdef __cplusplus
}
#endif

#endif
