#include "core/heap.h"

#include <malloc.h>

namespace lockstep::core {

void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1 /* never */);
#endif
}

}  // namespace lockstep::core
