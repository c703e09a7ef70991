// SPDX-License-Identifier: MIT
// runtime/version.cc — the library's number, as its own header has it.
#include "mkernel/version.h"

#define MK_TEXT(x) #x
#define MK_VERSION_TEXT(major, minor, patch) MK_TEXT(major) "." MK_TEXT(minor) "." MK_TEXT(patch)

namespace mk {

const char* version() { return MK_VERSION_TEXT(MKERNEL_VERSION_MAJOR, MKERNEL_VERSION_MINOR, MKERNEL_VERSION_PATCH); }

}  // namespace mk
