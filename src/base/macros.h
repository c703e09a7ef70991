// SPDX-License-Identifier: MIT
// base/macros.h — the only place that asks which compiler is running.
//
// MK_HD marks a function that host and device code both call.  MK_PROTOCOL stands on the line above a
// template over a machine: it may call what only one side has, because only that side instantiates it.
#pragma once

#ifdef __CUDACC__
#define MK_HD __host__ __device__
#define MK_PROTOCOL _Pragma("nv_exec_check_disable")
#else
#define MK_HD
#define MK_PROTOCOL
#endif
