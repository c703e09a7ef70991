// SPDX-License-Identifier: MIT
// tools/complaint.cc — see complaint.h.
#include "complaint.h"

#include <fmt/format.h>

#include <new>

#include "mkernel/error.h"
#include "usage.h"

namespace mk::tools {
namespace {

Complaint of_error(const Error& error, const RunRequest& request) {
  const std::string said = in_flags(error.what(), request);
  switch (error.code()) {
    case ErrorCode::kInvalidArgument: return {kExitUsage, said};
    case ErrorCode::kUnavailable:
      if (said != error.what()) return {kExitUsage, said};
      return {kExitUsage, fmt::format("--device is {}: {}", name_of(request.device), error.what())};
    case ErrorCode::kTimeout:
    case ErrorCode::kFabric:
    case ErrorCode::kAborted:
    case ErrorCode::kDevice: break;
  }
  return {kExitFailed, error.what()};
}

}  // namespace

Complaint complaint_of(std::exception_ptr trouble, const RunRequest& request) {
  try {
    std::rethrow_exception(std::move(trouble));
  } catch (const UsageError& error) {
    return {kExitUsage, error.what()};
  } catch (const Error& error) {
    return of_error(error, request);
  } catch (const std::bad_alloc&) {
    return {kExitFailed, "out of memory; try a smaller --m, --n, --k or --launches"};
  } catch (const std::exception& error) {
    return {kExitFailed, error.what()};
  } catch (...) {
    return {kExitFailed, "an exception that says nothing"};
  }
}

}  // namespace mk::tools
