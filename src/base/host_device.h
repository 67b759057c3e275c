// INGOT_HD marks functions that kernels of a device call too.
#pragma once

#ifdef __CUDACC__
#define INGOT_HD __host__ __device__
#else
#define INGOT_HD
#endif
