// SPDX-License-Identifier: MIT
// transport/rdma_completion.cc — see rdma_completion.h.
#include "transport/rdma_completion.h"

#include <fmt/format.h>

namespace mk {
namespace {

const char* meaning_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR: return "the peer does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer has no room";
    case IBV_WC_REM_ACCESS_ERR: return "the peer's NIC refuses the address or its key";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's NIC does not understand it";
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR: return "the peer's NIC failed";
    case IBV_WC_LOC_PROT_ERR: return "the own NIC does not know the memory it starts from";
    case IBV_WC_WR_FLUSH_ERR: return "the queue pair has stopped";
    default: return "the NIC failed";
  }
}

}  // namespace

std::string describe_completion(const ibv_wc& completion) {
  return fmt::format("{} ({}, vendor code {:#x})", meaning_of(completion.status), ibv_wc_status_str(completion.status),
                     completion.vendor_err);
}

}  // namespace mk
