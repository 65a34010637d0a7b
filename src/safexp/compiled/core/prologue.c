#include <float.h>
#include <math.h>
#include <stddef.h>

#ifdef __FAST_MATH__
#error "-ffast-math assumes that there are no NaNs, by which this file recognises what is not safe"
#endif

typedef shield_real real;

#if SHIELD_SINGLE
#define EXP expf
#define SQRT sqrtf
#define COS cosf
#define SIN sinf
#define TANH tanhf
#define FABS fabsf
#define FLOOR floorf
#define LEAST_EXPONENT -80
#define LEAST_WEIGHT (real)1e-30
#else
#define EXP exp
#define SQRT sqrt
#define COS cos
#define SIN sin
#define TANH tanh
#define FABS fabs
#define FLOOR floor
#define LEAST_EXPONENT -700
#define LEAST_WEIGHT (real)1e-200
#endif

enum { SCRATCH = SHIELD_MEMORY - SHIELD_SCRATCH }; /* work space of one function, at the end of the memory */
