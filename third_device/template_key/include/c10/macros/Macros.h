// The core's header, with the width of newdevice's warps. `#pragma once` of the core's own keeps it from being read twice.
#include_next <c10/macros/Macros.h>
#undef C10_WARP_SIZE
#define C10_WARP_SIZE 64
