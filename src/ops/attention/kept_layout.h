// SPDX-License-Identifier: MIT
// ops/attention/kept_layout.h — a layout and, if sequences are packed, the spans that it points to.
#pragma once

#include <memory>
#include <vector>

#include "ops/attention/attention_spans.h"
#include "runtime/device.h"

namespace mk::attention {

template <class L>
struct Kept : L {
  std::shared_ptr<const std::vector<Span>> spans_here;
  std::shared_ptr<const runtime::Buffer> spans_on_device;  // of keep_on

  void keep(std::vector<Span> spans) {
    if (spans.empty()) return;
    spans_here = std::make_shared<const std::vector<Span>>(std::move(spans));
    this->spans.all = spans_here->data();
    this->spans.count = static_cast<int>(spans_here->size());
  }
  // Before on_device().
  void keep_on(runtime::Device& device) {
    if (spans_here == nullptr || device.kind() != DeviceKind::kCuda) return;
    const size_t bytes = spans_here->size() * sizeof(Span);
    auto copy = std::make_shared<runtime::Buffer>(device, bytes);
    device.upload(copy->template as<void>(), spans_here->data(), bytes);
    spans_on_device = std::move(copy);
  }
  // For kernels.
  L on_device() const {
    L layout = *this;
    if (spans_on_device != nullptr) layout.spans.all = spans_on_device->template as<const Span>();
    return layout;
  }
};

}  // namespace mk::attention
