// SPDX-License-Identifier: MIT
// target/sim/chrome_trace.cc — see chrome_trace.h.
#include "target/sim/chrome_trace.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

namespace mk::sim {
namespace {

const char* name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kTile: return "tile";
    case SpanKind::kCopy: return "copy";
    case SpanKind::kStore: return "store";
    case SpanKind::kLoad: return "load";
    case SpanKind::kWait: return "wait";
  }
  return "?";
}

// Trace viewers count in microseconds.
double us(Time time) { return static_cast<double>(time) / kMicrosecond; }

}  // namespace

void write_chrome_trace(std::ostream& out, const SimCore& core) {
  out << "{\"traceEvents\":[\n";
  for (int rank = 0; rank < core.spec.world.size(); ++rank) {
    fmt::print(out, "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"rank {}\"}}}},\n", rank,
               rank);
  }
  for (const Worker& worker : core.workers) {
    fmt::print(out,
               "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{} {}\"}}}},\n",
               worker.rank, worker.number, core.spec.names.role(worker.post.role), worker.post.index);
  }
  for (const Span& span : core.spans) {
    const Worker& worker = core.workers[span.worker];
    fmt::print(
        out,
        "{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.6f},\"dur\":{:.6f},\"args\":{{\"launch\":{},"
        "\"subject\":{},\"detail\":\"{}\"}}}},\n",
        name_of(span.kind), worker.rank, worker.number, us(span.begin), us(span.end - span.begin), span.epoch,
        span.subject, span.detail);
  }
  out << "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"virtual time\"}}\n]}\n";
}

}  // namespace mk::sim
