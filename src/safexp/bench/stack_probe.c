/* Stack that a decision uses: it runs on a stack of its own, which was filled beforehand. */
#include <string.h>
#include <ucontext.h>

#include "shield.h"

static struct {
    ucontext_t caller, probe;
    shield_t *shield;
    const shield_real *observation, *proposal, *thresholds;
    shield_decision decision;
} question;

static void decide(void)
{
    shield_filter(question.shield, question.observation, NULL, question.proposal, question.thresholds, NULL,
                  &question.decision);
}

int struct_size(void) { return (int)sizeof(shield_t); }

int stack_use(shield_t *s, const shield_real *observation, const shield_real *proposal, const shield_real *thresholds,
              unsigned char *stack, int size)
{
    int untouched = 0;
    memset(stack, 0xA5, (size_t)size);
    question.shield = s;
    question.observation = observation;
    question.proposal = proposal;
    question.thresholds = thresholds;
    getcontext(&question.probe);
    question.probe.uc_stack.ss_sp = stack;
    question.probe.uc_stack.ss_size = (size_t)size;
    question.probe.uc_link = &question.caller;
    makecontext(&question.probe, decide, 0);
    swapcontext(&question.caller, &question.probe);
    while (untouched < size && stack[untouched] == 0xA5)
        untouched++;
    return size - untouched;
}
