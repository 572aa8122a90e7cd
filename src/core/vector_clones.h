#pragma once

/// Before a function of vectors: it is compiled for AVX-512, AVX2 and what is below, and the processor's form runs.
/// Elsewhere it is plain C++ with the compiler's own vectors. What it calls must be LOCKSTEP_ALWAYS_INLINE.
#if defined(__x86_64__)
#define LOCKSTEP_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LOCKSTEP_VECTOR_CLONES
#endif
#define LOCKSTEP_ALWAYS_INLINE inline __attribute__((always_inline))
