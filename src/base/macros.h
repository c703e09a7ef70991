// SPDX-License-Identifier: MIT
// base/macros.h — the only place that asks which compiler is running.
//
// MK_HD marks a function that host and device code both call.  MK_PROTOCOL stands on the line above a
// template over a machine: it may call what only one side has, because only that side instantiates it.  MK_INLINE is
// for a large function with one caller: as a call it would need its arguments, a machine's state among them, in memory.
// MK_LOOP stands on the line above a loop that nvcc is not to unroll: where a body is long and seldom runs, copies of
// it cost registers and minutes of compilation.
#pragma once

#ifdef __CUDACC__
#define MK_HD __host__ __device__
#define MK_PROTOCOL _Pragma("nv_exec_check_disable")
#define MK_INLINE __forceinline__
#define MK_LOOP _Pragma("unroll 1")
#define MK_INLINE_LAMBDA __attribute__((always_inline))
#else
#define MK_HD
#define MK_PROTOCOL
#define MK_INLINE inline
#define MK_LOOP
#define MK_INLINE_LAMBDA
#endif
